"""How a replica can be replaced here and now, if at all.

The budget of GPUs holds by construction, so only an explicit Surge may ask for more than it; a single replica without that
has nobody who serves while it is away, and the user says whether that is allowed.
"""

from mtpilot.api.inference_service import InferenceServiceSpec, RolloutStrategy
from mtpilot.model.decision import FleetState
from mtpilot.model.reasons import Reason


def has_ready_peer(fleet: FleetState) -> bool:
    """Whether somebody serves while one ready replica is away."""
    return fleet.ready >= 2


def feasible_strategy(spec: InferenceServiceSpec, fleet: FleetState) -> RolloutStrategy | None:
    """The strategy to replace one replica with now; None: it must wait (`why_infeasible` says for what). Never Auto."""
    wanted = spec.rollout.strategy
    if wanted is RolloutStrategy.SURGE:
        return RolloutStrategy.SURGE if fleet.gpus_free >= fleet.gpus_per_replica else None
    if has_ready_peer(fleet):
        return RolloutStrategy.RECREATE if wanted is RolloutStrategy.RECREATE else RolloutStrategy.ROLLING
    return RolloutStrategy.RECREATE if spec.rollout.allow_downtime else None


def why_infeasible(spec: InferenceServiceSpec, fleet: FleetState) -> tuple[Reason, str, str]:
    """(reason, message, what would change it) where `feasible_strategy` is None."""
    if spec.rollout.strategy is RolloutStrategy.SURGE:
        return (
            Reason.NO_SURGE_CAPACITY,
            f"Surge needs {fleet.gpus_per_replica} free GPUs and {fleet.gpus_free} are free",
            f"{fleet.gpus_per_replica} free GPUs on nodes of the hardware class, or another rollout.strategy",
        )
    if fleet.replicas > 1:
        return (
            Reason.REPLICAS_NOT_READY,
            f"{fleet.ready} of {fleet.replicas} replicas are ready: nobody would serve while one is replaced",
            "a second ready replica, or rollout.allowDowntime",
        )
    return (
        Reason.DOWNTIME_NOT_ALLOWED,
        "the only replica cannot be replaced without downtime",
        "rollout.allowDowntime, rollout.strategy Surge, or a second replica",
    )
