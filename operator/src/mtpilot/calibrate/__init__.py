"""One replica at a time is taken out of rotation, measured in both modes, and given back. Pure."""
