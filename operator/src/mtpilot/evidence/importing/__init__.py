"""Runs of other load generators as records. They tell less than our own: what is not told is None, and is said."""
