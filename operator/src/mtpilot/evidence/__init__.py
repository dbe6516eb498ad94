"""Measurements with what proves them: records of single requests and batches, and where they were taken."""
