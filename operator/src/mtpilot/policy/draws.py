"""How sure a better mix is, curves being measured with an error: in which share of draws it is cheaper, and by how much in the mean.

The levels of both curves are drawn from a grid of normal quantiles, so equal inputs give equal answers. What matters is mostly
their ratio, taken to half a percent; a level that both share is the same as another demand and other output lengths. So the tables
of a few ratios serve every draw, however the levels of the curves in use move.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

from mtpilot.curves.curve import CurvePair, ThroughputCurve

from .fluid import FluidFleet, fluid_fleet
from .forecast import Forecast

RATIOS, SHARED = 8, 3  # quantiles of mtp over batch, and of the batch level given each
ENOUGH = 0.9  # of the draws
LIKELY, WORTH = 2 / 3, 0.1  # of the draws, and of what staying costs in their mean: enough where the others serve on meanwhile
THIN_SHARE = 0.002  # of a rate: a tenth of what the best measurement errs
RATIO_STEP = 1.005
UNIT_DIGITS = 6  # of a rate over the curve's last one: what levels leave of a shape by rounding is the same shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """better: share of the draws in which a move is cheaper than staying. gain: by which share it is, in the mean of all draws.

    alone: the fleet is one replica, and a move that was wrong is two outages.
    """

    better: float
    gain: float
    alone: bool

    @property
    def enough(self) -> bool:
        """A fleet that is overloaded loses more by waiting for certainty than a move can cost that was probably right."""
        return self.better > ENOUGH or (not self.alone and self.better >= LIKELY and self.gain > WORTH)


def odds(forecast: Forecast, target: int, price: float, *, exact: bool = True) -> Odds:
    """Of ending at `target` batch replicas, `price` request-minutes added, beside staying.

    exact: False: draws are counted until it is clear that they are not enough; then the numbers are not of all draws.
    """
    curves, here, alone = forecast.fleet.curves, forecast.batch, forecast.fleet.replicas == 1
    draws = levels(curves.mtp_error, curves.batch_error)
    worse, staying, moving = 0, 0.0, 0.0
    for ratio, shared in draws:
        fleet, level = _tilted(forecast.fleet, ratio)
        level *= shared
        load = replace(forecast.load, demand=forecast.load.demand / level, output_tokens=forecast.load.output_tokens / level)
        costs = Forecast(fleet, here, load, forecast.terms).costs((here, target))
        worse += costs[target] + price >= costs[here]
        staying, moving = staying + costs[here], moving + costs[target] + price
        if not exact and 1 - worse / len(draws) < (ENOUGH if alone else LIKELY):
            break
    return Odds(better=1 - worse / len(draws), gain=1 - moving / staying if staying > 0 else 0.0, alone=alone)


@lru_cache(maxsize=64)
def levels(mtp_error: float, batch_error: float) -> tuple[tuple[float, float], ...]:
    """(mtp level over batch level, batch level) of each draw; the errors are relative standard errors, independent of one another."""
    spread = math.hypot(mtp_error, batch_error)
    if spread <= 0:
        return ((1.0, 1.0),)
    normal = NormalDist()
    rest = mtp_error * batch_error / spread
    found = []
    for i in range(RATIOS):
        ratio = spread * normal.inv_cdf((i + 0.5) / RATIOS)
        mean = -ratio * (batch_error / spread) ** 2  # of the batch level, where the ratio is known
        found += [(math.exp(ratio), math.exp(mean + rest * normal.inv_cdf((j + 0.5) / SHARED))) for j in range(SHARED)]
    return tuple(found)


@lru_cache(maxsize=512)
def _tilted(fleet: FluidFleet, ratio: float) -> tuple[FluidFleet, float]:
    """The fleet with the mtp level raised by `ratio`, in units of the batch curve's last rate, and that rate in tok/s."""
    if ratio == 1.0:
        return fleet, 1.0
    (mtp, top), (batch, level) = (_unit(curve) for curve in (fleet.curves.mtp, fleet.curves.batch))
    steps = round(math.log(ratio * top / level, RATIO_STEP))
    pair = CurvePair(mtp=mtp.scaled(RATIO_STEP**steps), batch=batch)
    return fluid_fleet(pair, fleet.replicas, fleet.by_latency), level


@lru_cache(maxsize=64)
def _unit(curve: ThroughputCurve) -> tuple[ThroughputCurve, float]:
    """The thinned curve over its last rate, and that rate in tok/s."""
    thin, level = thinned(curve), curve.tokens_per_second[-1]
    return replace(thin, tokens_per_second=tuple(float(f"{rate / level:.{UNIT_DIGITS}g}") for rate in thin.tokens_per_second)), level


def thinned(curve: ThroughputCurve) -> ThroughputCurve:
    """The curve without the points that a line between others meets within THIN_SHARE: each ratio needs tables of its own."""
    kept = _corners(curve, 0, len(curve.concurrency) - 1)
    return replace(
        curve, concurrency=tuple(curve.concurrency[i] for i in kept), tokens_per_second=tuple(curve.tokens_per_second[i] for i in kept)
    )


def _corners(curve: ThroughputCurve, first: int, last: int) -> list[int]:
    """Indexes to keep from `first` to `last`, both among them."""
    (x0, x1), (y0, y1) = ((values[first], values[last]) for values in (curve.concurrency, curve.tokens_per_second))
    between = range(first + 1, last)
    lines = [y0 + (y1 - y0) * (curve.concurrency[i] - x0) / (x1 - x0) for i in between]
    errors = [abs(line / curve.tokens_per_second[i] - 1) for i, line in zip(between, lines, strict=True)]
    if max(errors, default=0.0) <= THIN_SHARE:
        return sorted({first, last})
    split = first + 1 + errors.index(max(errors))
    return _corners(curve, first, split)[:-1] + _corners(curve, split, last)
