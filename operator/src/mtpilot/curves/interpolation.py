"""Between measured levels a power law, and never more levels than a curve needs.

Throughput is close to a power of the requests in flight over a factor of two to four, so a straight line in log-log through two levels
errs less than one in the plain plane, and it rises wherever the levels do.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from .step_time import Floats

MOST_LEVELS = 64
_EVERY_REQUEST_TO = 16


def power_law(levels: Sequence[float], rates: Sequence[float], at: Floats) -> Floats:
    """Rates at other levels: proportional below the first level, flat beyond the last."""
    inside = np.exp(np.interp(np.log(np.maximum(at, 1e-12)), np.log(levels), np.log(rates)))
    return np.where(at < levels[0], rates[0] * at / levels[0], inside)


def levels_up_to(slots: float, keep: Iterable[float] = ()) -> tuple[float, ...]:
    """About 64 levels from 1 to the slots: every one at first, then in equal ratios; those to keep are among them."""
    kept = sorted({level for level in (*keep, slots) if 0 < level <= slots})
    first = [float(level) for level in range(1, int(min(slots, _EVERY_REQUEST_TO)) + 1)]
    more = max(MOST_LEVELS - len(kept) - len(first), 0)
    rest = np.geomspace(_EVERY_REQUEST_TO, slots, more + 1)[1:].tolist() if slots > _EVERY_REQUEST_TO and more else []
    return tuple(sorted({*kept, *(level for level in (*first, *rest) if not _is_near(level, kept))}))


def _is_near(level: float, kept: Sequence[float]) -> bool:
    """Two levels closer than this tell the same and divide by almost nothing."""
    return any(abs(level - other) < 0.01 * other for other in kept)
