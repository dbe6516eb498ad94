"""SGLang's own parser over everything that mtpilot renders: the real 0.5.23 wheel in an environment of its own."""
