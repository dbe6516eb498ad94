"""From the snapshot to what the policy sees: demand and the state of the fleet."""

from datetime import datetime, timedelta
from statistics import median

from mtpilot.api.hardware_class import StartupSpec
from mtpilot.api.inference_service import Mode
from mtpilot.api.status import InferenceServiceStatus, PolicyState
from mtpilot.api.types import parse_duration
from mtpilot.model.decision import Demand, FleetState, NoDemand
from mtpilot.model.snapshot import Snapshot
from mtpilot.policy.demand import observe
from mtpilot.rollout.choose import active, is_ready
from mtpilot.rollout.context import Context, blocked_until
from mtpilot.rollout.step import state_of

from .fleet import calibrating_slot, desired_mix, moving_slot

HOUR = timedelta(hours=1)
USUAL_SECONDS_PER_TOKEN = 0.03


def policy_state(snapshot: Snapshot) -> PolicyState:
    """This process's own memory, else what status kept."""
    return snapshot.memory or snapshot.service.status.policy


def read_demand(snapshot: Snapshot, now: datetime) -> Demand | NoDemand:
    """Without a slot that is measured: its load is the measurement's own."""
    service, away = snapshot.service, calibrating_slot(snapshot.slots)
    pods = tuple(pod for pod in snapshot.pods if pod.slot != away)
    return observe(snapshot.metrics, pods, snapshot.slots, snapshot.engines, service.spec, policy_state(snapshot), now)


def recent_moves(snapshot: Snapshot, now: datetime) -> tuple[datetime, ...]:
    """Starts of the flips of the last hour: kept ones and those that stand on the slots, so none is lost with a process."""
    kept = {datetime.fromisoformat(text) for text in (*policy_state(snapshot).recent_moves, *snapshot.service.status.policy.recent_moves)}
    decided = {state.decided_at for slot in snapshot.slots if (state := state_of(slot)).decided_at is not None}
    return tuple(sorted(at for at in {moment.replace(microsecond=0) for moment in kept | decided} if now - at < HOUR))


def last_move(snapshot: Snapshot) -> tuple[datetime | None, Mode | None]:
    """When the mix last began or ended to move (dwell counts from there), and the mode that the replica was to go to."""
    moves: list[tuple[datetime, Mode | None]] = [
        (datetime.fromisoformat(entry.at), entry.to_mode) for entry in snapshot.service.status.history
    ]
    for slot in snapshot.slots:
        state = state_of(slot)
        to = state.from_mode.other if state.from_mode is not None else None
        moves.extend((at, to) for at in (state.decided_at, state.completed_at) if at is not None)
    return max(moves, key=lambda move: move[0], default=(None, None))


def flip_seconds(status: InferenceServiceStatus) -> float | None:
    """Median of the flips that were completed lately, in seconds."""
    done = [entry.seconds for entry in status.history if entry.seconds is not None]
    return float(median(done)) if done else None


def expected_flip_seconds(snapshot: Snapshot) -> float:
    """How long a replica serves nothing during a flip: as lately seen, else what its class expects of a start, after a drain.

    A drain lasts as long as the longest request in flight: one that has just begun, at a usual pace, and never past its deadline.
    """
    seen = flip_seconds(snapshot.service.status)
    if seen is not None:
        return seen
    spec = snapshot.service.spec
    startup = snapshot.hardware.spec.engine.startup if snapshot.hardware is not None else StartupSpec()
    drain = min(spec.workload.output_tokens * USUAL_SECONDS_PER_TOKEN, parse_duration(spec.rollout.drain_timeout).total_seconds())
    return drain + parse_duration(startup.expected).total_seconds()


def fleet_state(snapshot: Snapshot, context: Context, now: datetime) -> FleetState:
    moves = recent_moves(snapshot, now)
    blocked = {mode: blocked_until(context.templates.digest(mode), context) for mode in Mode}
    failed = {mode: ends for mode, ends in blocked.items() if ends is not None}
    hardware = snapshot.hardware
    moved_at, moved_to = last_move(snapshot)
    return FleetState(
        mix=desired_mix(snapshot.slots),
        replicas=snapshot.service.spec.replicas,
        ready=sum(is_ready(slot, snapshot.pods) for slot in active(snapshot.slots)),
        moving=moving_slot(snapshot.slots, snapshot.pods),
        last_move_at=moved_at,
        moves_last_hour=len(moves),
        oldest_move_last_hour_at=moves[0] if moves else None,
        failed_modes=failed,
        gpus_free=hardware.gpus_free if hardware else 0,
        gpus_per_replica=hardware.spec.gpu.per_replica if hardware else 1,
        median_flip_seconds=flip_seconds(snapshot.service.status),
        mtp_digest=context.templates.digest(Mode.MTP),
        batch_digest=context.templates.digest(Mode.BATCH),
        expected_flip_seconds=expected_flip_seconds(snapshot),
        calibrating=calibrating_slot(snapshot.slots),
        last_move_to=moved_to,
    )
