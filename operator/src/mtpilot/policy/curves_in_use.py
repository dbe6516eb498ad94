"""The curves that a decision is made by: as measured, then corrected by what the engines show.

Live acceptance scales the mtp curve (X = X_measured × A / A_measured), refinement the level of both, and an engine's effective
slots cut a curve short. A factor is rounded to a percent, so that the fluid model's tables are made anew only when it matters.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.curves.curve import CurvePair
from mtpilot.model.decision import Demand, ReplicaSample

from .fluid import FluidFleet, fluid_fleet
from .memory import Remembered
from .refine import LOADED_SHARE
from .smoothing import smooth, weight

# Without loaded mtp replicas nothing is seen of acceptance, and what was seen says less and less about the present requests.
ACCEPT_LENGTH_FORGOTTEN_SECONDS = 6 * 3600.0


def accept_length(
    before: float | None,
    demand: Demand,
    curves: CurvePair,
    *,
    elapsed_seconds: float | None,
    smoothing_seconds: float,
    forgetting_pace: float = 1.0,
) -> float | None:
    """Smoothed accept length; it counts only where mtp replicas are loaded, and sinks back to the profile's where they are not."""
    if curves.accept_length is None:
        return None
    if demand.accept_length is not None and demand.accept_length >= 1.0 and _mtp_is_loaded(demand.replicas):
        return smooth(before, demand.accept_length, elapsed_seconds=elapsed_seconds, time_constant_seconds=smoothing_seconds)
    if before is None:
        return None
    return before + weight(elapsed_seconds or 0.0, ACCEPT_LENGTH_FORGOTTEN_SECONDS * forgetting_pace) * (curves.accept_length - before)


def _mtp_is_loaded(samples: Sequence[ReplicaSample]) -> bool:
    mtp = [sample for sample in samples if sample.mode is Mode.MTP]
    return sum(sample.running for sample in mtp) >= max(LOADED_SHARE * sum(sample.slots for sample in mtp), 1.0)


def effective_slots(mode: Mode, samples: Sequence[ReplicaSample], known: int | None, *, requested: int) -> int | None:
    """Fewest slots that a serving engine of a mode reports, else those last seen; None: as many as are requested.

    A number that only repeats the request is not kept: it would outlive the request.
    """
    reported = [sample.slots for sample in samples if sample.mode is mode and sample.slots > 0 and sample.slots_reported]
    if not reported:
        return known
    return min(reported) if min(reported) < requested else None


def mtp_scale(curves: CurvePair, accept_length: float | None) -> float:
    """Live accept length over the measured one; 1 where either is unknown."""
    return 1.0 if curves.accept_length is None or accept_length is None else accept_length / curves.accept_length


def fleet_in_use(spec: InferenceServiceSpec, curves: CurvePair, remembered: Remembered, replicas: int, *, by_latency: bool) -> FluidFleet:
    """The fluid model of `replicas` replicas as they are now."""
    requested_mtp, requested_batch = spec.modes.mtp.max_running_requests, spec.modes.batch.max_running_requests
    mtp = min(remembered.mtp_slots or requested_mtp, requested_mtp)
    batch = min(remembered.batch_slots or requested_batch, requested_batch)
    percent = max(round(100 * mtp_scale(curves, remembered.accept_length) * remembered.refinement.factor(Mode.MTP)), 1)
    return fluid_fleet(_corrected(curves, percent, round(100 * remembered.refinement.factor(Mode.BATCH)), mtp, batch), replicas, by_latency)


@lru_cache(maxsize=256)
def _corrected(curves: CurvePair, mtp_percent: int, batch_percent: int, mtp_slots: int, batch_slots: int) -> CurvePair:
    """Slots only cut: what was not measured beyond the last point is not promised."""
    mtp, batch = curves.mtp, curves.batch
    return replace(
        curves,
        mtp=mtp.with_slots(min(mtp.slots, mtp_slots)).scaled(mtp_percent / 100),
        batch=batch.with_slots(min(batch.slots, batch_slots)).scaled(batch_percent / 100),
    )
