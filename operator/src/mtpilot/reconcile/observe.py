"""From the snapshot to what the policy sees: demand and the state of the fleet."""

from datetime import datetime, timedelta
from statistics import median

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import InferenceServiceStatus, PolicyState
from mtpilot.model.decision import Demand, FleetState, NoDemand
from mtpilot.model.snapshot import Snapshot
from mtpilot.policy.demand import observe
from mtpilot.rollout.choose import active, is_ready
from mtpilot.rollout.context import Context, blocked_until
from mtpilot.rollout.step import state_of

from .fleet import desired_mix, moving_slot

HOUR = timedelta(hours=1)


def policy_state(snapshot: Snapshot) -> PolicyState:
    """This process's own memory, else what status kept."""
    return snapshot.memory or snapshot.service.status.policy


def read_demand(snapshot: Snapshot, now: datetime) -> Demand | NoDemand:
    service = snapshot.service
    return observe(snapshot.metrics, snapshot.pods, snapshot.slots, snapshot.engines, service.spec, policy_state(snapshot), now)


def recent_moves(snapshot: Snapshot, now: datetime) -> tuple[datetime, ...]:
    """Starts of the flips of the last hour: kept ones and those that stand on the slots, so none is lost with a process."""
    kept = {datetime.fromisoformat(text) for text in (*policy_state(snapshot).recent_moves, *snapshot.service.status.policy.recent_moves)}
    decided = {state.decided_at for slot in snapshot.slots if (state := state_of(slot)).decided_at is not None}
    return tuple(sorted(at for at in {moment.replace(microsecond=0) for moment in kept | decided} if now - at < HOUR))


def last_move(snapshot: Snapshot) -> datetime | None:
    """When the mix last began or ended to move; dwell counts from there."""
    times = [datetime.fromisoformat(entry.at) for entry in snapshot.service.status.history]
    for slot in snapshot.slots:
        state = state_of(slot)
        times.extend(at for at in (state.decided_at, state.completed_at) if at is not None)
    return max(times, default=None)


def flip_seconds(status: InferenceServiceStatus) -> float | None:
    """Median of the flips that were completed lately, in seconds."""
    done = [entry.seconds for entry in status.history if entry.seconds is not None]
    return float(median(done)) if done else None


def fleet_state(snapshot: Snapshot, context: Context, now: datetime) -> FleetState:
    moves = recent_moves(snapshot, now)
    blocked = {mode: blocked_until(context.templates.digest(mode), context) for mode in Mode}
    failed = {mode: ends for mode, ends in blocked.items() if ends is not None}
    hardware = snapshot.hardware
    return FleetState(
        mix=desired_mix(snapshot.slots),
        replicas=snapshot.service.spec.replicas,
        ready=sum(is_ready(slot, snapshot.pods) for slot in active(snapshot.slots)),
        moving=moving_slot(snapshot.slots, snapshot.pods),
        last_move_at=last_move(snapshot),
        moves_last_hour=len(moves),
        oldest_move_last_hour_at=moves[0] if moves else None,
        failed_modes=failed,
        gpus_free=hardware.gpus_free if hardware else 0,
        gpus_per_replica=hardware.spec.gpu.per_replica if hardware else 1,
        median_flip_seconds=flip_seconds(snapshot.service.status),
        mtp_digest=context.templates.digest(Mode.MTP),
    )
