"""Online refinement: production samples correct the level of each mode's curve, and tell when the profile no longer holds.

A level is what the loaded replicas of a mode produce over what their curve says at the requests they run. What is not seen
of one mode is taken from the other, as far as that one is known: a longer context or a slower card slows both, and to correct
only the mode that happens to run would move the fleet for no reason. The shape of a curve is never touched.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mtpilot.api.inference_service import Mode
from mtpilot.curves.curve import CurvePair
from mtpilot.model.decision import ReplicaSample

from .fluid import MixTable, fluid_fleet
from .smoothing import weight

LEVEL_TIME_CONSTANT_SECONDS = 600.0
KNOWN_TIME_CONSTANT_SECONDS = 1800.0  # of samples, until a level counts
FORGOTTEN_TIME_CONSTANT_SECONDS = 6 * 3600.0  # without samples, until the other mode's level counts instead
LOWEST, HIGHEST = 0.7, 1.4  # of what a level may correct; beyond it the profile is wrong, not the day
LEAST, MOST = 0.1, 10.0  # of what is believed at all
LOADED_SHARE = 0.1  # of its slots that a replica runs at least: below it the rate's window holds another load than the gauge
DRIFT_SHARE = 0.15
DRIFT_SECONDS = 1800.0
_DRIFT = math.log(1.0 + DRIFT_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """value: rate seen over rate of the curve, averaged. known: 0…1."""

    value: float = 1.0
    known: float = 0.0


AS_MEASURED = Level()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """drift_seconds: for how long, in samples, a level has been further than DRIFT_SHARE from 1."""

    mtp: Level = AS_MEASURED
    batch: Level = AS_MEASURED
    drift_seconds: float = 0.0

    def of(self, mode: Mode) -> Level:
        return self.mtp if mode is Mode.MTP else self.batch

    def factor(self, mode: Mode) -> float:
        """What the rates of a mode's curve are multiplied with."""
        own, other = self.of(mode), self.of(mode.other)
        factor = own.value**own.known * other.value ** ((1.0 - own.known) * other.known)
        return float(min(max(factor, LOWEST), HIGHEST))

    @property
    def drifted(self) -> Mode | None:
        """The mode whose level has left the profile for long enough, if any; the further one of two."""
        if self.drift_seconds < DRIFT_SECONDS:
            return None
        return max(Mode, key=lambda mode: _distance(self.of(mode)))


def _distance(level: Level) -> float:
    """How far a level is from 1, on a scale where ×1.15 and ÷1.15 are the same; 0 where it is not known."""
    return abs(math.log(level.value)) if level.known > 0 else 0.0


def refine(
    before: Refinement, samples: Sequence[ReplicaSample], curves: CurvePair, *, mtp_scale: float, elapsed_seconds: float, pace: float = 1.0
) -> Refinement:
    """Take one look at the replicas that serve.

    Args:
        curves: as measured. mtp_scale: live accept length over the measured one: not a matter of the level.
        elapsed_seconds: since the look before, long absences cut by the caller. pace: factor on the time constants of the averages.
    """
    ratio = _ratios(samples, curves, mtp_scale)
    mtp = _level(before.mtp, ratio[Mode.MTP], elapsed_seconds, pace)
    batch = _level(before.batch, ratio[Mode.BATCH], elapsed_seconds, pace)
    drift_seconds = before.drift_seconds
    if any(ratio.values()):
        # NB: only what runs now can be shown to be right again, so only that counts.
        far = max(_distance(level) for level, seen in ((mtp, ratio[Mode.MTP]), (batch, ratio[Mode.BATCH])) if seen) > _DRIFT
        drift_seconds = min(max(drift_seconds + (elapsed_seconds if far else -elapsed_seconds), 0.0), 2 * DRIFT_SECONDS)
    return Refinement(mtp=mtp, batch=batch, drift_seconds=drift_seconds)


def _ratios(samples: Sequence[ReplicaSample], curves: CurvePair, mtp_scale: float) -> dict[Mode, float | None]:
    """Rate over the curve's rate of all loaded replicas of each mode together; None: none is loaded."""
    alone = fluid_fleet(curves, 1)
    return {
        Mode.MTP: _ratio([sample for sample in samples if sample.mode is Mode.MTP], alone.of(1, 0), mtp_scale),
        Mode.BATCH: _ratio([sample for sample in samples if sample.mode is Mode.BATCH], alone.of(0, 1), 1.0),
    }


def _ratio(samples: Sequence[ReplicaSample], table: MixTable, scale: float) -> float | None:
    loaded_at = max(LOADED_SHARE * table.slots, 1.0)
    seen = said = 0.0
    for sample in samples:
        if sample.tokens_per_second > 0 and (sample.running >= loaded_at or sample.running >= max(LOADED_SHARE * sample.slots, 1.0)):
            seen += sample.tokens_per_second
            said += table.rate(sample.running)
    return min(max(seen / (said * scale), LEAST), MOST) if said > 0 else None


def _level(before: Level, ratio: float | None, elapsed_seconds: float, pace: float) -> Level:
    if ratio is None:
        return Level(value=before.value, known=before.known * (1.0 - weight(elapsed_seconds, FORGOTTEN_TIME_CONSTANT_SECONDS * pace)))
    share = weight(elapsed_seconds, LEVEL_TIME_CONSTANT_SECONDS * pace)
    known = before.known + weight(elapsed_seconds, KNOWN_TIME_CONSTANT_SECONDS * pace) * (1.0 - before.known)
    return Level(value=before.value * (ratio / before.value) ** share, known=known)
