"""What a pair of curves concludes: where the better mode changes, how sure that is, and whether flipping can pay.

The crossover is the last change of sign of log(X_batch / X_mtp) over the requests in flight. Beyond its slots a curve is flat, so
where mtp has run out of them this is the slot crossover, X_batch(C) = X_mtp(N_mtp).

Uncertainty is a bootstrap of the curves' levels: each draw shifts the log ratio by a normal error, whose size was propagated from the
noise of the points through the fit. One number is drawn, so 201 quantiles of the normal distribution stand for the draws: the same every
time, and no better sampled by chance.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Verdict

from .curve import CurvePair, ThroughputCurve
from .step_time import Floats

DRAWS = 201
LOW, HIGH = 0.05, 0.95
# What a side must gain to count: less is not seen in operation.
MARGIN = 0.03
_LEVELS = 64

_QUANTILES = np.array([NormalDist().inv_cdf((draw + 0.5) / DRAWS) for draw in range(DRAWS)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Of one pair.

    crossover: requests in flight at one replica, None: one mode is better at every level; low, high: its 90 % interval.
    above: the better mode beyond it. bound: what makes it so. probability_none: share of the draws without a crossover.
    mtp_gain, batch_gain: the most that each mode serves more than the other at some level, as a share, at least 0.
    """

    verdict: Verdict
    crossover: float | None
    low: float | None
    high: float | None
    above: Mode | None
    bound: Bound | None
    probability_none: float
    mtp_gain: float
    batch_gain: float


def conclude(pair: CurvePair, *, mtp_error: float | None = None, batch_error: float | None = None) -> Conclusion:
    """The conclusion of a pair; errors are relative standard errors of the curves, by default those of the pair."""
    levels = _levels(pair)
    ratio = np.log(_rates(pair.batch, levels) / _rates(pair.mtp, levels))
    spread = float(np.hypot(pair.mtp_error if mtp_error is None else mtp_error, pair.batch_error if batch_error is None else batch_error))
    value, above = _crossing(levels, ratio[None, :])
    drawn, drawn_above = _crossing(levels, ratio[None, :] + spread * _QUANTILES[:, None])
    crossover = None if np.isnan(value[0]) else float(value[0])
    same = drawn[~np.isnan(drawn) & (drawn_above == above[0])]
    low, high = (None, None) if crossover is None or not same.size else (float(x) for x in np.quantile(same, (LOW, HIGH)))
    mode = None if crossover is None else Mode.BATCH if above[0] > 0 else Mode.MTP
    return Conclusion(
        verdict=_verdict(ratio[None, :] + spread * _QUANTILES[:, None]),
        crossover=crossover,
        low=low,
        high=high,
        above=mode,
        bound=None if crossover is None or mode is None else _bound(pair, crossover, mode),
        probability_none=float(np.mean(np.isnan(drawn))),
        mtp_gain=max(float(np.expm1(np.max(-ratio))), 0.0),
        batch_gain=max(float(np.expm1(np.max(ratio))), 0.0),
    )


def _levels(pair: CurvePair) -> Floats:
    """From one request to twice the larger number of slots, with the bends of both curves."""
    most = max(pair.mtp.slots, pair.batch.slots)
    least = min(1.0, most)
    bends = [level for curve in (pair.mtp, pair.batch) for level in curve.concurrency if level >= least]
    return np.unique(np.concatenate([np.geomspace(least, 2 * most, _LEVELS), bends]))


def _rates(curve: ThroughputCurve, levels: Floats) -> Floats:
    return np.interp(levels, (0.0, *curve.concurrency), (0.0, *curve.tokens_per_second))


def _crossing(levels: Floats, ratios: Floats) -> tuple[Floats, Floats]:
    """For each row: the level of the last change of sign, NaN where there is none, and the sign beyond it.

    Equal rates have no sign: the change is where they end.
    """
    ratios = np.where(np.abs(ratios) < 1e-9, 0.0, ratios)
    signs = np.sign(ratios)
    told = np.maximum.accumulate(np.where(signs != 0, np.arange(signs.shape[1]), 0), axis=1)
    changes = np.take_along_axis(signs, told, axis=1)[:, :-1] * signs[:, 1:] < 0
    last = changes.shape[1] - 1 - np.argmax(changes[:, ::-1], axis=1)
    rows = np.arange(len(ratios))
    left, right = ratios[rows, last], ratios[rows, last + 1]
    found = changes[rows, last]
    share = np.where(found, left / np.where(found, left - right, 1.0), 0.0)
    logs = np.log(levels)
    at = np.exp(logs[last] + share * (logs[last + 1] - logs[last]))
    return np.where(found, at, np.nan), np.where(found, signs[rows, last + 1], 0.0)


def _bound(pair: CurvePair, crossover: float, above: Mode) -> Bound:
    """Slots where the mode that falls behind has none left at the crossover."""
    behind = pair.mtp if above is Mode.BATCH else pair.batch
    return Bound.SLOTS if crossover >= behind.slots * (1 - 1e-9) else Bound.COMPUTE


def _verdict(ratios: Floats) -> Verdict:
    """What most draws say: both sides gain, or only one."""
    batch, mtp = ratios.max(axis=1), (-ratios).max(axis=1)
    margin = np.log1p(MARGIN)
    if np.mean((batch > margin) & (mtp > margin)) > 0.5:
        return Verdict.FLIP
    return Verdict.MTP_ONLY if np.mean(mtp >= batch) >= 0.5 else Verdict.BATCH_ONLY
