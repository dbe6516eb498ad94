"""Replacing a slot's template, with a deadline and a way back.

The ready deadline counts from the new pod's creation, since the old pod may use its grace period to finish requests. A
template that missed it is put aside with a back-off; the template that last served is put back, from what the cluster still
has of it where the spec can no longer render it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mtpilot.api.status import SlotPhase
from mtpilot.model.plan import Action, ApplyObject, Event, EventType
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Pod, RolloutState, Slot, SlotKind
from mtpilot.model.snapshot import Manifest

from .context import Context, Step, blocked_until, count_failure, failures_of
from .pods import in_flight, leaving, trouble, with_digest
from .writes import delete_slot, set_state


def begin_replacement(slot: Slot, state: RolloutState, context: Context) -> Step:
    """Apply the desired template: state and template change in one write."""
    target = context.templates.digest(state.desired_mode)
    state = replace(state, replace_started_at=context.now, target_digest=target, rolling_back=False)
    manifest = context.templates.manifest(slot.index, state.desired_mode, state)
    return Step(
        phase=SlotPhase.REPLACING,
        state=state,
        actions=_apply(slot, manifest, f"{slot.name} takes the {state.desired_mode} template {target}"),
        since=context.now,
        deadline=context.now + context.ready_timeout,
        message=f"starting in {state.desired_mode}",
        moving=True,
    )


def _apply(slot: Slot, manifest: Manifest, why: str) -> tuple[Action, ...]:
    """One write; where the hardware class now asks for another kind of object the old one goes first: they share name and GPUs."""
    apply = ApplyObject(manifest=manifest, why=why)
    if manifest["kind"] == slot.kind:
        return (apply,)
    return delete_slot(slot, f"{slot.name} becomes a {manifest['kind']}"), apply


def continue_replacement(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    """Wait for the new pod; finish, start over with a newer template, or go back at the deadline."""
    target = context.templates.digest(state.desired_mode)
    if target != state.target_digest or slot.digest != target:
        # The spec changed on the way, or the process died between state and template.
        return begin_replacement(slot, state, context)
    pod = with_digest(pods, target)
    if pod is not None and pod.ready:
        return _complete(slot, pod, state, context)
    deadline = _deadline(slot, pod, pods, state, context)
    overdue = _is_overdue(deadline, pods, context)
    why = why_not_ready(slot, pod)
    if overdue and state.surge and state.served_digest is None:
        return Step(phase=SlotPhase.BROKEN, state=state, since=state.replace_started_at, message=why, moving=True, failed_surge=True)
    if overdue and state.served_digest is not None and state.served_digest != target:
        return _begin_rollback(slot, pod, state, context)
    old = leaving(pods)
    message = _ending(old[0], context) if old else why
    phase = SlotPhase.BROKEN if overdue else SlotPhase.REPLACING
    return Step(phase=phase, state=state, since=state.replace_started_at, deadline=deadline, message=message, moving=not overdue)


def _ending(pod: Pod, context: Context) -> str:
    """What a pod on its way out still does. An engine that does not answer may hold requests, or be down already."""
    requests = in_flight((pod,), context.loads)
    if requests:
        return f"{pod.name} finishes its requests"
    return f"waits until {pod.name} has ended" + (" (its engine does not answer)" if requests is None else "; no request in flight")


def _deadline(slot: Slot, pod: Pod | None, pods: Sequence[Pod], state: RolloutState, context: Context) -> datetime | None:
    """When the new pod must be ready; None while it cannot be made yet, since the old one still finishes its requests."""
    started = state.replace_started_at or context.now
    if pod is not None:
        created = max(started, pod.created_at)
        # NB: a group is made anew whenever one of its containers ends, so a leader that is young may be the hundredth one.
        started = created if slot.kind is SlotKind.DEPLOYMENT else min(created, started + context.drain_timeout)
    elif leaving(pods):
        return None
    elif slot.refused is None:
        started += context.drain_timeout  # NB: the old pod may have left only just now, after its whole grace
    return started + context.ready_timeout


def _is_overdue(deadline: datetime | None, pods: Sequence[Pod], context: Context) -> bool:
    return deadline is not None and context.now >= deadline and not leaving(pods)


def why_not_ready(slot: Slot, pod: Pod | None) -> str:
    """What keeps a slot from serving, in the API server's, the scheduler's or the kubelet's words."""
    if pod is None:
        return slot.refused or "no pod yet"
    return trouble(pod) or "the engine is loading"


def _complete(slot: Slot, pod: Pod, state: RolloutState, context: Context) -> Step:
    assert state.target_digest is not None  # noqa: S101 - set with replace_started_at
    flipped = state.decided_at is not None and state.completed_at is None
    started = state.replace_started_at or context.now
    cleared = state.failed_digest == state.target_digest
    state = replace(
        state,
        replace_started_at=None,
        target_digest=None,
        served_mode=state.desired_mode,
        served_digest=slot.digest,
        completed_at=context.now if flipped else state.completed_at,
        failed_digest=None if cleared else state.failed_digest,
        failed_at=None if cleared else state.failed_at,
        failures=0 if cleared else state.failures,
    )
    message = f"{slot.name} serves in {state.desired_mode} {(context.now - started).total_seconds():.0f}s after its template changed"
    return Step(
        phase=SlotPhase.SERVING,
        state=state,
        actions=(set_state(slot, state),),
        events=(Event(type=EventType.NORMAL, reason=Reason.SLOT_REPLACED, message=message, action="Replace"),),
        since=pod.ready_since or context.now,
    )


def _begin_rollback(slot: Slot, pod: Pod | None, state: RolloutState, context: Context) -> Step:
    failed = state.target_digest
    state = replace(
        state,
        rolling_back=True,
        replace_started_at=context.now,
        target_digest=None,
        desired_mode=state.served_mode or slot.mode,
        completed_at=state.completed_at or (context.now if state.decided_at is not None else None),
        failed_digest=failed,
        failed_at=context.now,
        failures=count_failure(failed, context),
    )
    step = _apply_served(slot, state, context)
    ends = failures_of((state,), context.back_off)[state.failed_digest or ""].ends
    message = (
        f"{slot.name} was not ready in {slot.mode} within {context.ready_timeout.total_seconds():.0f}s ({why_not_ready(slot, pod)}); "
        f"back to {state.desired_mode}, next try after {ends:%H:%M:%SZ}"
    )
    return replace(step, message=message)


def _apply_served(slot: Slot, state: RolloutState, context: Context) -> Step:
    assert state.served_digest is not None  # noqa: S101 - a rollback has a place to go
    mode = state.served_mode or state.desired_mode
    if context.templates.digest(mode) == state.served_digest:
        manifest = context.templates.manifest(slot.index, mode, state)
    else:
        kept = context.templates.revision(slot, state.served_digest, state)
        if kept is None:  # neither the spec nor the cluster has it any more: the present spec is all there is
            state = replace(state, served_digest=context.templates.digest(mode))
            kept = context.templates.manifest(slot.index, mode, state)
        manifest = kept
    why = f"{slot.name} goes back to the {mode} template {state.served_digest}"
    return Step(
        phase=SlotPhase.ROLLING_BACK,
        state=state,
        actions=_apply(slot, manifest, why),
        since=state.replace_started_at,
        moving=True,
    )


def continue_rollback(slot: Slot, pods: Sequence[Pod], state: RolloutState, context: Context) -> Step:
    """Wait until what served before serves again; a new spec ends the wait.

    Where that is not ready in time either the slot is broken: it takes the wanted template once that may be tried again.
    """
    wanted = context.templates.digest(state.desired_mode)
    if wanted not in (state.failed_digest, state.served_digest):
        return begin_replacement(slot, state, context)
    if slot.digest != state.served_digest:
        return _apply_served(slot, state, context)
    pod = with_digest(pods, slot.digest)
    if pod is not None and pod.ready:
        state = replace(state, rolling_back=False, replace_started_at=None, target_digest=None)
        return Step(
            phase=SlotPhase.SERVING,
            state=state,
            actions=(set_state(slot, state),),
            since=pod.ready_since or context.now,
            message="back in the mode that last served",
        )
    deadline = _deadline(slot, pod, pods, state, context)
    broken = _is_overdue(deadline, pods, context)
    if broken and wanted != state.served_digest and blocked_until(wanted, context) is None:
        return begin_replacement(slot, state, context)
    phase = SlotPhase.BROKEN if broken else SlotPhase.ROLLING_BACK
    why = why_not_ready(slot, pod)
    return Step(phase=phase, state=state, since=state.replace_started_at, deadline=deadline, message=why, moving=not broken)
