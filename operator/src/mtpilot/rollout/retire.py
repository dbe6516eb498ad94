"""Retiring a slot: scale-down, the old half of a surge, and deletion of the service all drain before they delete."""

from collections.abc import Sequence
from dataclasses import replace

from mtpilot.api.status import SlotPhase
from mtpilot.model.plan import Action
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Pod, RolloutState, Slot

from .context import Context, Step
from .drain import DrainState, end_of_drain, keep_draining, observe_drain, resume_serving, stop_serving
from .writes import delete_slot, set_state


def begin_retirement(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    """Take a slot out of service for good. A drain that runs already keeps its start."""
    state = replace(state, retiring=True, drain_started_at=state.drain_started_at or context.now)
    step = continue_retirement(slot, pods, state, context)
    return replace(step, actions=(set_state(slot, state), *step.actions))


def cancel_retirement(slot: Slot, pods: Sequence[Pod], state: RolloutState) -> tuple[RolloutState, tuple[Action, ...]]:
    """Scaled up again before the slot was gone: it serves on."""
    state = replace(state, retiring=False, drain_started_at=None)
    return state, (set_state(slot, state), *resume_serving(pods))


def continue_retirement(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    """Drain, then delete the slot's object; its pod still has its grace period after that."""
    started_at = state.drain_started_at or context.now
    if slot.deleting:
        return Step(phase=SlotPhase.RETIRING, state=state, since=started_at, message=f"its {slot.kind} is being deleted", moving=True)
    view = observe_drain(pods, started_at, context)
    if view.state is DrainState.WAITING:
        return keep_draining(SlotPhase.RETIRING, pods, state, started_at, view)
    event = end_of_drain(view, done=Reason.SLOT_RETIRED, message=f"{slot.name} retires: {view.message}", action="Retire")
    delete = delete_slot(slot, f"{slot.name} retires")
    return Step(
        phase=SlotPhase.RETIRING, state=state, actions=(*stop_serving(pods), delete), events=(event,), since=started_at, moving=True
    )
