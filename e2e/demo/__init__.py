"""The demo: one InferenceService on the local cluster, flipped by a recorded production trace, measured and reported."""
