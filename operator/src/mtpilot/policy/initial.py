"""The mode of a slot that is created: mtp, unless the pinned mix, a minimum, the profile or the recommendation asks for batch."""

import math
from statistics import fmean

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, PolicyMode
from mtpilot.api.throughput_profile import Verdict
from mtpilot.curves.curve import CurvePair
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Mix

from .bounds import pinned_mix, with_batch
from .fluid import fluid_fleet

LEVELS = 20  # of demand, up to what both modes can serve
LEAST_SHARE = 0.03  # that mtp must hold more requests than batch


def first_mix(spec: InferenceServiceSpec, replicas: int, calibration: Calibration | None) -> Mix:
    """The mix that a service begins with, within policy.minReplicas: all batch where the profile speaks for it, else all mtp.

    It does where its verdict is BatchOnly or batch has the shorter latency over the loads that both modes can serve: a lone replica
    that began in the wrong mode might never find the hour in which its absence costs little.
    """
    batch = calibration is not None and (calibration.verdict is Verdict.BATCH_ONLY or _batch_is_quicker(calibration))
    return with_batch(spec, replicas, replicas if batch else 0)


def _batch_is_quicker(calibration: Calibration) -> bool:
    return calibration.verdict is Verdict.FLIP and _latency_ratio(calibration.curves) > 1.0 + LEAST_SHARE


def _latency_ratio(curves: CurvePair) -> float:
    """mtp latency over batch latency, as requests held, in the geometric mean over LEVELS of demand up to the lower capacity."""
    fleet = fluid_fleet(curves, 1)
    mtp, batch = fleet.of(1, 0), fleet.of(0, 1)
    most = min(mtp.capacity, batch.capacity)
    demands = [most * (i + 0.5) / LEVELS for i in range(LEVELS)]
    return math.exp(fmean(math.log(mtp.in_flight(demand) / batch.in_flight(demand)) for demand in demands))


def initial_mode(spec: InferenceServiceSpec, existing: Mix, recommended: Mix | None) -> Mode:
    """The mode of the next new slot beside `existing`; call it once per slot, with the slots before counted in.

    recommended: of the last decision, for the number of replicas there was then; its shares are kept when the fleet grows.
    """
    if spec.policy.mode is PolicyMode.PINNED:
        target = pinned_mix(spec, spec.replicas)
        return Mode.BATCH if existing.batch < target.batch and existing.mtp >= target.mtp else Mode.MTP
    least = spec.policy.min_replicas
    if existing.mtp < least.mtp:
        return Mode.MTP
    if existing.batch < least.batch:
        return Mode.BATCH
    if spec.policy.mode is PolicyMode.RECOMMEND_ONLY or recommended is None or recommended.total == 0:
        return Mode.MTP
    share = recommended.batch * (existing.total + 1) // recommended.total
    return Mode.BATCH if max(recommended.batch, share) > existing.batch else Mode.MTP
