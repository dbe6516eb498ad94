"""How demand wavers around its mean: the last hour by the minute, to be played again around a mean that is forecast.

A mean below the capacity may hide bursts above it, which wait. How long is told by the last hour's own minutes, scaled to the
mean that the forecast takes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MINUTES = 60
LEAST_MINUTES = 15  # fewer do not tell how demand wavers
MINUTE_SECONDS = 60.0
GRID = 1.01  # from one capacity of the table to the next; between them it is a line


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


def waiting(minutes: Sequence[float], capacity: float) -> float:
    """Tokens times minutes that wait while these minutes pass at `capacity`, in tokens a minute as they are, the queue empty at first."""
    queued = waited = 0.0
    for demand in minutes:
        growth = demand - capacity
        after = queued + growth
        if after > 0.0:
            waited += (queued + after) / 2
            queued = after
        elif queued > 0.0:
            waited -= queued * queued / (2 * growth)
            queued = 0.0
    return waited


class Wavering:
    """What waits because demand wavers as it did in these minutes, whatever its mean and the capacity.

    Where demand and capacity are scaled together the queue is scaled with them: so one table, by capacity over mean demand, serves
    every forecast. Its points are made when first asked for. mean: tok/s of the minutes. top: the largest of them, over the mean.
    """

    __slots__ = ("_found", "_minutes", "mean", "top")

    def __init__(self, minutes: tuple[float, ...]) -> None:
        self.mean = sum(minutes) / len(minutes) if minutes else 0.0
        tells = len(minutes) >= LEAST_MINUTES and self.mean > 0
        self._minutes = tuple([demand / self.mean for demand in minutes]) if tells else ()
        self.top = max(self._minutes, default=0.0)
        self._found: dict[int, float] = {}

    def waits(self, demand: float, capacity: float, requests_per_token: float) -> float:
        """Requests that wait in the mean beside those that the mean `demand` makes wait, in tok/s; 0 where too little was seen."""
        if demand <= 0 or capacity <= 0 or self.top * demand <= capacity:
            return 0.0
        position = math.log(capacity / demand, GRID)
        low = math.floor(position)
        below, above = self._at(low), self._at(low + 1)
        return demand * requests_per_token * (below + (above - below) * (position - low))

    def _at(self, index: int) -> float:
        found = self._found.get(index)
        if found is None:
            capacity, minutes = GRID**index, len(self._minutes)
            steady = max(0.0, 1.0 - capacity) * minutes**2 / 2
            found = self._found[index] = max(0.0, waiting(self._minutes, capacity) - steady) / minutes
        return found


@lru_cache(maxsize=64)
def wavering(minutes: tuple[float, ...]) -> Wavering:
    """The same table for the same minutes."""
    return Wavering(minutes)
