"""All slots of a service, one tick: who moves on, who is created, who retires, who may start.

One slot moves at a time. A slot that has never served does not count as moving, so that a bad first spec can be corrected
in all slots at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, RolloutStrategy
from mtpilot.api.status import SlotPhase
from mtpilot.api.types import parse_duration
from mtpilot.calibrate.course import Course
from mtpilot.model.decision import Decision, FleetState, Mix
from mtpilot.model.names import slot_index, slot_name
from mtpilot.model.plan import Action, ApplyObject, Event, EventType
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Pod, RolloutState, Slot, SlotKind
from mtpilot.model.snapshot import Snapshot
from mtpilot.policy.initial import initial_mode
from mtpilot.policy.strategy import feasible_strategy
from mtpilot.rollout.choose import active, free_indexes, is_ready, pods_of, slot_to_flip, slots_to_retire, surging
from mtpilot.rollout.context import Context, Step, Templates, blocked_until, count_failure, failures_of
from mtpilot.rollout.retire import begin_retirement, cancel_retirement
from mtpilot.rollout.step import advance, begin_move, is_moving, state_of
from mtpilot.rollout.writes import delete_slot, set_state

NO_COURSE = Course()


@dataclass(slots=True, kw_only=True)
class FleetSteps:
    """One tick over the slots: what it works on, and what was decided so far by the functions below."""

    snapshot: Snapshot
    steps: dict[str, Step] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    created: list[tuple[int, Mode, RolloutState]] = field(default_factory=list)
    creations: list[Action] = field(default_factory=list)

    def pods(self, slot: Slot) -> tuple[Pod, ...]:
        return pods_of(slot, self.snapshot.pods)

    def take(self, slot: Slot, step: Step) -> None:
        self.steps[slot.name] = step
        self.actions.extend(step.actions)
        self.events.extend(step.events)


def rollout_context(spec: InferenceServiceSpec, snapshot: Snapshot, templates: Templates, now: datetime) -> Context:
    ready = parse_duration(spec.rollout.ready_timeout)
    standing = [slot for slot in active(snapshot.slots) if not surging(slot)]
    back_off = max(ready, parse_duration(spec.policy.min_dwell), timedelta(seconds=10))
    return Context(
        now=now,
        templates=templates,
        loads=snapshot.engines,
        drain_timeout=parse_duration(spec.rollout.drain_timeout),
        ready_timeout=ready,
        back_off=back_off,
        failures=failures_of((state_of(slot) for slot in snapshot.slots), back_off),
        surplus=len(standing) > spec.replicas,
    )


def desired_mix(slots: Sequence[Slot]) -> Mix:
    """Modes that the active slots have or are going to have; a surge slot once it serves, a measured one as before."""
    modes = [_counted(state_of(slot)) for slot in active(slots) if not surging(slot)]
    return Mix(mtp=modes.count(Mode.MTP), batch=modes.count(Mode.BATCH))


def _counted(state: RolloutState) -> Mode:
    return state.home_mode or state.desired_mode if state.is_calibrating else state.desired_mode


def calibrating_slot(slots: Sequence[Slot]) -> str | None:
    """The slot that is out of rotation to be measured, if any."""
    return next((slot.name for slot in active(slots) if state_of(slot).is_calibrating), None)


def moving_slot(slots: Sequence[Slot], pods: Sequence[Pod]) -> str | None:
    """The slot on its way between templates, or out of rotation, if any; a first start is not a move."""
    for slot in slots:
        state = state_of(slot)
        first_start = state.served_digest is None and not state.retiring and not state.surge and not is_ready(slot, pods)
        if slot.deleting or state.is_calibrating or (is_moving(state) and not first_start):
            return slot.name
    return None


def step_fleet(snapshot: Snapshot, context: Context, decision: Decision, fleet: FleetState, course: Course = NO_COURSE) -> FleetSteps:
    """One tick over all slots: go on with what moves, match the replica count, then start at most one new move.

    course: what the calibration does with a slot; it moves like any other.
    """
    # First what ends a measurement, then what brings its slot back.
    tick = FleetSteps(snapshot=snapshot, actions=list(course.actions), events=list(course.events))
    moving = moving_slot(snapshot.slots, snapshot.pods) or next(iter(course.steps), None)
    for slot in snapshot.slots:
        if slot.name in course.steps:
            tick.take(slot, course.steps[slot.name])
        elif is_moving(state_of(slot)):
            _go_on(tick, slot, context)
    moving = _match_replicas(tick, context, decision, moving)
    if moving is None and decision.move_to is not None:
        moving = _start_flip(tick, context, decision, fleet)
    for slot in sorted(snapshot.slots, key=lambda slot: is_ready(slot, snapshot.pods)):  # what does not serve can move at no cost
        if slot.name not in tick.steps:
            moving = _settle_or_roll(tick, slot, context, fleet, moving)
    tick.creations.extend(course.makes)
    tick.actions.extend(tick.creations)  # last: a quota that refuses a new slot must not stop what the others do
    return tick


def _go_on(tick: FleetSteps, slot: Slot, context: Context) -> None:
    step = advance(slot, tick.pods(slot), context, may_start=False)
    tick.take(slot, _give_up_surge(tick.snapshot, slot, step, context) if step.failed_surge else step)


def _give_up_surge(snapshot: Snapshot, slot: Slot, step: Step, context: Context) -> Step:
    """Remember the failed template on a peer, then delete the surge slot; a failure that is remembered already counts once."""
    failed = step.state.target_digest
    actions: list[Action] = []
    since = step.state.replace_started_at or context.now
    peer = next((peer for peer in active(snapshot.slots) if peer.name != slot.name), None)
    if peer is not None and not any(_failed_since(other, failed, since) for other in snapshot.slots):
        state = replace(state_of(peer), failed_digest=failed, failed_at=context.now, failures=count_failure(failed, context))
        actions.append(set_state(peer, state))
    actions.append(delete_slot(slot, "surge slot was not ready in time"))
    message = f"{slot.name}: surge replica not ready in {step.state.desired_mode} in time ({step.message}); removed"
    event = Event(type=EventType.WARNING, reason=Reason.FLIP_ROLLED_BACK, message=message, action="Rollback")
    ended = replace(step.state, failed_at=context.now, completed_at=context.now)
    return replace(step, state=ended, phase=SlotPhase.RETIRING, actions=tuple(actions), events=(event,), failed_surge=False)


def _failed_since(slot: Slot, digest: str | None, since: datetime) -> bool:
    state = state_of(slot)
    return state.failed_digest == digest and state.failed_at is not None and state.failed_at >= since


def _match_replicas(tick: FleetSteps, context: Context, decision: Decision, moving: str | None) -> str | None:
    """Create, keep or retire slots until their number is spec.replicas; the name of the slot that moves after that.

    What is missing is made at once; what is too many waits until a move under way has ended, or is stuck past its deadline.
    """
    snapshot = tick.snapshot
    standing = [slot for slot in active(snapshot.slots) if not surging(slot)]
    missing = snapshot.service.spec.replicas - len(standing)
    if missing > 0:
        _grow(tick, context, decision, missing)
    if missing >= 0 or (moving is not None and not _is_stuck(tick, moving)):
        return moving
    digests = {mode: context.templates.digest(mode) for mode in Mode}
    chosen = slots_to_retire(snapshot.slots, snapshot.pods, snapshot.engines, -missing, digests)
    for slot in chosen:
        tick.take(slot, begin_retirement(slot, tick.pods(slot), state_of(slot), context))
    return chosen[0].name if chosen else None


def _is_stuck(tick: FleetSteps, name: str) -> bool:
    """NB: maybe for ever, as with a GPU that is gone. No peer may flip or roll then, but scaling down is the way out."""
    step = tick.steps.get(name)
    return step is not None and step.phase is SlotPhase.BROKEN and not step.moving


def _grow(tick: FleetSteps, context: Context, decision: Decision, missing: int) -> None:
    """Keep retiring slots first, then create: a slot that is created again keeps its mode."""
    snapshot = tick.snapshot
    for slot in snapshot.slots:
        if missing and state_of(slot).retiring and not slot.deleting:
            state, actions = cancel_retirement(slot, tick.pods(slot), state_of(slot))
            cancelled = tick.steps[slot.name].actions
            tick.actions = [action for action in tick.actions if action not in cancelled]
            tick.take(slot, Step(phase=SlotPhase.SERVING, state=state, actions=actions, message="stays: scaled up again"))
            missing -= 1
    mix = desired_mix(snapshot.slots)
    previous = {line.name: line.mode for line in snapshot.service.status.slots}
    for index in free_indexes(snapshot.slots, missing, _foreign_indexes(snapshot)):
        name = slot_name(snapshot.service.name, index)
        mode = previous.get(name) or initial_mode(snapshot.service.spec, mix, decision.recommended)
        mix = Mix(mtp=mix.mtp + (mode is Mode.MTP), batch=mix.batch + (mode is Mode.BATCH))
        _create(tick, context, index, RolloutState(desired_mode=mode))


def _foreign_indexes(snapshot: Snapshot) -> tuple[int | None, ...]:
    """Indexes whose name belongs to an object that is not ours."""
    return tuple(slot_index(snapshot.service.name, found.name) for found in snapshot.conflicts if found.kind in set(SlotKind))


def _create(tick: FleetSteps, context: Context, index: int, state: RolloutState) -> str:
    name = slot_name(tick.snapshot.service.name, index)
    manifest = context.templates.manifest(index, state.desired_mode, state)
    tick.creations.append(ApplyObject(manifest=manifest, why=f"{name} is missing"))
    tick.created.append((index, state.desired_mode, state))
    message = f"{name} {'surges' if state.surge else 'is created'} in {state.desired_mode}"
    tick.events.append(Event(type=EventType.NORMAL, reason=Reason.SLOT_CREATED, message=message, action="Create"))
    return name


def _start_flip(tick: FleetSteps, context: Context, decision: Decision, fleet: FleetState) -> str | None:
    """Begin the decided flip; decision and first act are one write."""
    to = decision.move_to
    assert to is not None  # noqa: S101 - the caller's condition
    snapshot = tick.snapshot
    slot = slot_to_flip(snapshot.slots, snapshot.pods, snapshot.engines, to)
    strategy = feasible_strategy(snapshot.service.spec, fleet)
    if slot is None or strategy is None or slot.name in tick.steps:
        return None
    flip = replace(
        RolloutState(desired_mode=to) if strategy is RolloutStrategy.SURGE else state_of(slot),
        desired_mode=to,
        from_mode=to.other,
        decided_at=context.now,
        completed_at=None,
        reason=decision.reason,
        message=decision.message,
        surge=False,
        home_mode=None,
    )
    if strategy is RolloutStrategy.SURGE:
        return _surge(tick, context, flip)
    tick.take(slot, begin_move(slot, tick.pods(slot), flip, context))
    return slot.name


def _surge(tick: FleetSteps, context: Context, state: RolloutState) -> str:
    """Add a replica beyond the budget; a slot of the old kind retires once it serves."""
    (index,) = free_indexes(tick.snapshot.slots, 1, _foreign_indexes(tick.snapshot))
    target = context.templates.digest(state.desired_mode)
    return _create(tick, context, index, replace(state, surge=True, replace_started_at=context.now, target_digest=target))


def _settle_or_roll(tick: FleetSteps, slot: Slot, context: Context, fleet: FleetState, moving: str | None) -> str | None:
    """A slot that does not move: leave it, or start it towards the present spec when its turn has come."""
    pods = tick.pods(slot)
    state = state_of(slot)
    target = context.templates.digest(state.desired_mode)
    needs_roll = slot.digest != target and blocked_until(target, context) is None and not slot.deleting
    never_served = state.served_digest is None and not is_ready(slot, pods)
    if not needs_roll or never_served:
        tick.take(slot, advance(slot, pods, context, may_start=never_served))
        return moving
    strategy = feasible_strategy(tick.snapshot.service.spec, fleet) if is_ready(slot, pods) else RolloutStrategy.RECREATE
    if moving is None and strategy is RolloutStrategy.SURGE:
        moving = _surge(tick, context, RolloutState(desired_mode=state.desired_mode))
    may_start = moving is None and strategy is not None
    step = advance(slot, pods, context, may_start=may_start)
    if strategy is None:
        step = replace(
            step, message="new template waits: nobody would serve meanwhile (rollout.allowDowntime, or strategy Surge with free GPUs)"
        )
    tick.take(slot, step)
    return slot.name if may_start else moving
