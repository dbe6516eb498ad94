"""The next step of one slot, from what is there now.

Level-based: nothing is remembered between two calls except the slot's rollout state, so a step that was cut short by a
crash is simply taken again. Every change of state is one write, made before the act that it announces.
"""

from collections.abc import Sequence
from dataclasses import replace

from mtpilot.api.status import SlotPhase
from mtpilot.model.names import ANNOTATION_DIGEST
from mtpilot.model.plan import Action, ApplyObject, Event, EventType
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Pod, RolloutState, Slot
from mtpilot.model.snapshot import Manifest

from .context import Context, Step, blocked_until
from .drain import DrainState, end_of_drain, keep_draining, observe_drain, resume_serving, stop_serving
from .pods import IMAGE_REASONS, with_digest, worth_draining
from .replace import begin_replacement, continue_replacement, continue_rollback, why_not_ready
from .retire import continue_retirement
from .writes import set_state


def state_of(slot: Slot) -> RolloutState:
    """The slot's rollout state; a slot without one shall stay as its template is."""
    return slot.state or RolloutState(desired_mode=slot.mode)


def is_moving(state: RolloutState) -> bool:
    return state.retiring or state.drain_started_at is not None or state.replace_started_at is not None


def advance(slot: Slot, pods: Sequence[Pod], context: Context, *, may_start: bool) -> Step:
    """The slot's next step.

    Args:
        slot, pods: the slot and its pods.
        context: settings, engine loads, renderings and the time.
        may_start: whether the slot may begin to move; ignored by one that moves already.
    """
    state = state_of(slot)
    if is_moving(state):
        return _continue(slot, pods, state, context)
    target = context.templates.digest(state.desired_mode)
    if slot.digest == target:
        return _settled(slot, pods, state, context)
    blocked = blocked_until(target, context)
    if blocked is not None:
        return _waiting(slot, pods, state, f"template {target} was not ready in time; next try after {blocked:%H:%M:%SZ}")
    if not may_start:
        return _waiting(slot, pods, state, "waits for its turn to take the new template")
    return begin_move(slot, pods, state, context)


def _continue(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    if state.retiring:
        return continue_retirement(slot, pods, state, context)
    if state.rolling_back:
        return continue_rollback(slot, pods, state, context)
    if state.replace_started_at is not None:
        return continue_replacement(slot, pods, state, context)
    return _continue_drain(slot, pods, state, context)


def begin_move(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    """Start towards `state.desired_mode`: drain first, unless there is nothing that could hold a request."""
    if not worth_draining(pods):
        return begin_replacement(slot, replace(state, drain_started_at=None), context)
    state = replace(state, drain_started_at=context.now, replace_started_at=None, target_digest=None)
    event = Event(
        type=EventType.NORMAL,
        reason=Reason.DRAIN_STARTED,
        message=f"{slot.name}: no new requests; waiting for those in flight",
        action="Drain",
    )
    return Step(
        phase=SlotPhase.DRAINING,
        state=state,
        actions=(set_state(slot, state), *stop_serving(pods)),
        events=(event,),
        since=context.now,
        deadline=context.now + context.drain_timeout,
        moving=True,
    )


def _continue_drain(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    started_at = state.drain_started_at
    assert started_at is not None  # noqa: S101 - the caller's condition
    if slot.digest == context.templates.digest(state.desired_mode):
        state = replace(state, drain_started_at=None)
        actions: tuple[Action, ...] = (set_state(slot, state), *resume_serving(pods))
        return Step(phase=SlotPhase.SERVING, state=state, actions=actions, since=context.now, message="the spec is back: drain cancelled")
    view = observe_drain(pods, started_at, context)
    if view.state is DrainState.WAITING:
        return keep_draining(SlotPhase.DRAINING, pods, state, started_at, view)
    step = begin_replacement(slot, replace(state, drain_started_at=None), context)
    message = f"{slot.name}: {view.message} after {(context.now - started_at).total_seconds():.0f}s"
    event = end_of_drain(view, done=Reason.DRAIN_COMPLETED, message=message, action="Drain")
    return replace(step, events=(event, *step.events))


def _settled(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    """The slot's object carries the right template: record what serves, mend drift, report the pod."""
    pod = with_digest(pods, slot.digest)
    actions: list[Action] = []
    events: list[Event] = []
    before = state
    if pod is not None and pod.ready and (state.served_digest, state.served_mode) != (slot.digest, slot.mode):
        ended = state.completed_at or (context.now if state.decided_at is not None else None)
        state = replace(state, served_digest=slot.digest, served_mode=slot.mode, completed_at=ended)
    if state.failed_digest is not None and state.failed_digest not in context.failures:
        state = replace(state, failed_digest=None, failures=0)  # a peer has served with it; `failed_at` tells how the last flip ended
    if not context.surplus:
        state = replace(state, surge=False)  # the slot it was added for has retired
    if state != before:
        actions.append(set_state(slot, state))
    manifest = context.templates.manifest(slot.index, state.desired_mode, state)
    if slot.drifted or slot.replicas != 1:
        actions.append(ApplyObject(manifest=manifest, why=f"{slot.name} was changed by somebody else"))
        events.append(
            Event(
                type=EventType.WARNING,
                reason=Reason.DRIFT_CORRECTED,
                message=f"{slot.name}: fields of ours were changed by somebody else; applied again",
            )
        )
    elif slot.object_digest is not None and slot.object_digest != stamped_digest(manifest):
        actions.append(ApplyObject(manifest=manifest, why=f"{slot.name}: settings of its {slot.kind} changed, pod template unchanged"))
    step = _waiting(slot, pods, state)
    actions.extend(resume_serving(pods))
    return replace(step, actions=tuple(actions), events=tuple(events)) if actions else step


def stamped_digest(manifest: Manifest) -> str | None:
    """The digest that a rendered object carries in its annotation; `render.digest.object_digest` made it."""
    value = manifest.get("metadata", {}).get("annotations", {}).get(ANNOTATION_DIGEST)
    return str(value) if value is not None else None


def resting(slot: Slot, pods: Sequence[Pod]) -> Step:
    """A slot that is only looked at."""
    return _waiting(slot, pods, state_of(slot))


def _waiting(slot: Slot, pods: Sequence[Pod], state: RolloutState, message: str | None = None) -> Step:
    """A slot that does not move: what its pod says."""
    pod = with_digest(pods, slot.digest)
    if pod is not None and pod.ready:
        return Step(phase=SlotPhase.SERVING, state=state, since=pod.ready_since or pod.created_at, message=message)
    broken = pod is not None and (pod.crash_looping or pod.waiting_reason in IMAGE_REASONS)
    phase = SlotPhase.BROKEN if broken else SlotPhase.PENDING
    why = message or why_not_ready(slot, pod)
    return Step(phase=phase, state=state, since=pod.created_at if pod else slot.created_at, message=why)
