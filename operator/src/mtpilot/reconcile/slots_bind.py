"""What to do first where mtp has no more slots: most of its loss at high load is a lack of them, and more of them cost no flip."""

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.api.throughput_profile import Bound
from mtpilot.capacity.errors import NotCovered
from mtpilot.capacity.launch import Launch, launch_from_flags
from mtpilot.capacity.limits import limit_of
from mtpilot.capacity.remedy import remedy
from mtpilot.model.snapshot import Snapshot

from .profiles import Selection
from .templates import running_options

_STATE_FLAGS = ("--mamba-", "--max-mamba-")


def first_remedy(snapshot: Snapshot, selection: Selection, policy: PolicyState) -> str | None:
    """A sentence for status; None where slots are not what binds, as far as is known.

    With a profile its crossover says so; without one, that a replica in mtp has been seen full.
    """
    calibration = selection.calibration
    if calibration is None:
        binds = policy.mtp_capacity_tokens_per_second is not None
    else:
        binds = calibration.bound is Bound.SLOTS and calibration.above is Mode.BATCH
    if not binds:
        return None
    requested = snapshot.service.spec.modes.mtp.max_running_requests
    effective = _effective(snapshot) or policy.mtp_slots or requested
    launch, flags_of_states = _running(snapshot)
    keeps = _keeps_states(snapshot)
    first = remedy(
        effective_slots=effective,
        requested_slots=requested,
        limit=limit_of(effective, requested),
        launch=launch,
        hybrid=flags_of_states if keeps is None else keeps,
    )
    return f"mtp is short of slots: {first}; a flip comes second" if first is not None else None


def _running(snapshot: Snapshot) -> tuple[Launch | None, bool | None]:
    """Mtp's arguments, and whether they speak of recurrent states; None: they do not, which says nothing of the model."""
    flags = running_options(snapshot.service, snapshot.hardware, Mode.MTP)
    if flags is None:
        return None, None
    hybrid = True if any(flag.startswith(_STATE_FLAGS) for flag in flags) else None
    try:
        return launch_from_flags(flags), hybrid
    except NotCovered:
        return None, hybrid


def _keeps_states(snapshot: Snapshot) -> bool | None:
    """Whether the model keeps recurrent states, by what any of its engines reports; None: none has yet."""
    metrics = snapshot.metrics
    found = [pod.state_slots for pod in metrics.pods.values() if pod.state_slots is not None] if metrics is not None else []
    return any(slots > 0 for slots in found) if found else None


def _effective(snapshot: Snapshot) -> int | None:
    loads = [snapshot.engines.get(pod.uid) for pod in snapshot.pods if pod.mode is Mode.MTP and pod.ready]
    found = [load.effective_max_running_requests for load in loads if load is not None and load.effective_max_running_requests]
    return min(found, default=None)
