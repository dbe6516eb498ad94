"""mtpilot: keeps the right mix of MTP and batch SGLang replicas inside a fixed GPU budget."""
