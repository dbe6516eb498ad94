"""Regret: what staying has cost more than a step to the other mode would have, since the mix last changed.

An hour ahead never pays for the absence of a lone replica, though days would. That the time to come is like the time that was
seen is the best guess there is, so what was regretted counts for a move, where that move is the better one now too.
"""

import math
from dataclasses import dataclass

from .forecast import Forecast

REMEMBERED_SECONDS = 86400.0
MOST_REPLICAS = 1  # with more, one is away at a time and an hour pays for it; there regret was measured to give nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """batch: number of batch replicas of the mix; None: nothing seen. to_batch, to_mtp: request-minutes; below 0: staying was better."""

    batch: int | None = None
    to_batch: float = 0.0
    to_mtp: float = 0.0

    def of(self, step: int) -> float:
        return self.to_batch if step > 0 else self.to_mtp


NO_REGRET = Regret()


def gain(forecast: Forecast, step: int) -> float:
    """Requests that the mix one `step` (1 to batch, -1 to mtp) away would hold less than the present one, under this load for an hour."""
    there = forecast.batch + step
    if not 0 <= there <= forecast.fleet.replicas:
        return 0.0
    return (1.0 - forecast.load.closed_weight) * (forecast.steady(forecast.batch) - forecast.steady(there))


def better_step(forecast: Forecast, margin: float) -> int:
    """The step that this load speaks for by more than `margin` of what the present mix holds; 0: none."""
    least = margin * forecast.steady(forecast.batch)
    return next((step for step in (1, -1) if gain(forecast, step) > least), 0)


def note_regret(regret: Regret, forecast: Forecast, *, elapsed_seconds: float) -> Regret:
    """Take one sample that stands for the time since the one before; after a change of the mix it begins anew."""
    if regret.batch != forecast.batch:
        return Regret(batch=forecast.batch)
    kept, minutes = math.exp(-elapsed_seconds / REMEMBERED_SECONDS), elapsed_seconds / 60.0
    return Regret(
        batch=forecast.batch,
        to_batch=kept * regret.to_batch + gain(forecast, 1) * minutes,
        to_mtp=kept * regret.to_mtp + gain(forecast, -1) * minutes,
    )
