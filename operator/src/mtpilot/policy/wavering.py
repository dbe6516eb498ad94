"""How demand wavers around its mean: the last hour by the minute, to be played again around a mean that is forecast.

A mean below the capacity may hide bursts above it, which wait. How long is told by the last hour's own minutes, scaled to the
mean that the forecast takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MINUTES = 60
LEAST_MINUTES = 15  # fewer do not tell how demand wavers
MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lately:
    """minutes: mean demand in tok/s of each of the last minutes, oldest first. tokens, seconds: of the minute that is not over."""

    minutes: tuple[float, ...] = ()
    tokens: float = 0.0
    seconds: float = 0.0


NOTHING_SEEN = Lately()


def note_demand(lately: Lately, demand: float, *, elapsed_seconds: float) -> Lately:
    """Take one sample that stands for the time since the one before."""
    tokens, seconds = lately.tokens + demand * elapsed_seconds, lately.seconds + elapsed_seconds
    if seconds < 0.95 * MINUTE_SECONDS:
        return Lately(minutes=lately.minutes, tokens=tokens, seconds=seconds)
    return Lately(minutes=(*lately.minutes[1 - MINUTES :], tokens / seconds))


def waiting(minutes: Sequence[float], scale: float, capacity: float, requests_per_token: float) -> float:
    """Request-minutes that wait while these minutes pass, each times `scale`, at `capacity` tok/s, the queue empty at first."""
    queued = waited = 0.0
    for demand in minutes:
        growth = (demand * scale - capacity) * requests_per_token
        after = queued + growth
        if after > 0.0:
            waited += (queued + after) / 2
            queued = after
        elif queued > 0.0:
            waited -= queued * queued / (2 * growth)
            queued = 0.0
    return waited
