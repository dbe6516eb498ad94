"""Mixes that a service may have: between the minimum of each mode, and the pinned one."""

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.decision import Mix


def batch_bounds(spec: InferenceServiceSpec, replicas: int) -> tuple[int, int]:
    """(fewest, most) batch replicas of `replicas`; where both minimums do not fit, mtp's goes first."""
    most = replicas - min(spec.policy.min_replicas.mtp, replicas)
    return min(spec.policy.min_replicas.batch, most), most


def with_batch(spec: InferenceServiceSpec, replicas: int, batch: int) -> Mix:
    """The allowed mix that is nearest to `batch` batch replicas."""
    fewest, most = batch_bounds(spec, replicas)
    inside = min(max(batch, fewest), most)
    return Mix(mtp=replicas - inside, batch=inside)


def pinned_mix(spec: InferenceServiceSpec, replicas: int) -> Mix:
    """The pinned mix for `replicas`; in proportion where `/scale` has changed their number, all mtp where nothing is pinned."""
    pinned = spec.policy.pinned
    total = pinned.mtp + pinned.batch if pinned is not None else 0
    if pinned is None or total == 0:
        return Mix(mtp=replicas, batch=0)
    batch = (2 * pinned.batch * replicas + total) // (2 * total)
    if replicas >= 2 and pinned.mtp and pinned.batch:
        batch = min(max(batch, 1), replicas - 1)
    return Mix(mtp=replicas - batch, batch=batch)


def step_towards(mix: Mix, target: Mix) -> Mode | None:
    """The mode one replica shall go over to; None: the modes are right, as far as the present number of replicas allows."""
    if mix.batch < target.batch and mix.mtp > target.mtp:
        return Mode.BATCH
    if mix.mtp < target.mtp and mix.batch > target.batch:
        return Mode.MTP
    return None
