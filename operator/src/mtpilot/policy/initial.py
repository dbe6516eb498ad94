"""The mode of a slot that is created: mtp, unless the pinned mix, a minimum, the profile's verdict or the recommendation asks for batch."""

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, PolicyMode
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Mix

from .bounds import pinned_mix, with_batch


def first_mix(spec: InferenceServiceSpec, replicas: int, calibration: Calibration | None) -> Mix:
    """The mix that a service begins with: all mtp, or all batch where the profile's verdict is BatchOnly, within policy.minReplicas.

    A lone replica that began in the wrong mode might never find the hour in which its absence costs little.
    """
    only_batch = calibration is not None and calibration.verdict is Verdict.BATCH_ONLY
    return with_batch(spec, replicas, replicas if only_batch else 0)


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
