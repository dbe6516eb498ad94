"""A stand-in for an SGLang 0.5.23 server where there is no GPU."""
