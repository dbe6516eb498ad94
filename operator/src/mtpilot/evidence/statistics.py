"""Means and spreads that come out the same, to the last bit, on every machine.

A verifier recomputes each table and compares it exactly, so only operations that IEEE 754 rounds in one way are used: exact sums,
divisions and square roots.
"""

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float | None:
    """Of exact sums; None without values."""
    return math.fsum(values) / len(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation of one among repeats (n - 1); None for fewer than two."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - middle) * (value - middle) for value in values) / (len(values) - 1))
