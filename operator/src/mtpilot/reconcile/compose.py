"""plan: observe, decide, step every slot, describe. Composes the pure parts and holds no rule of its own."""

from dataclasses import dataclass, replace
from datetime import datetime

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import CalibrationStatus, ConditionType, HistoryEntry, PolicyState, SlotStatus
from mtpilot.model.decision import Decision, Demand, NoDemand
from mtpilot.model.names import slot_name
from mtpilot.model.plan import Action, ApplyObject, EnsureSecret, Event, EventType, Plan
from mtpilot.model.reasons import WITHOUT_EVENT, Reason
from mtpilot.model.slots import RolloutState
from mtpilot.model.snapshot import Child, Manifest, Snapshot
from mtpilot.policy.decide import decide
from mtpilot.render.arguments import engine_image
from mtpilot.render.errors import InvalidArguments
from mtpilot.render.model_source import served_name
from mtpilot.rollout.choose import pods_of
from mtpilot.rollout.step import is_moving, resting, stamped_digest, state_of

from . import conditions, history, prediction, status
from .deletion import plan_deletion
from .findings import Findings
from .fleet import FleetSteps, desired_mix, rollout_context, step_fleet
from .measuring import calibration_course
from .observe import fleet_state, flip_seconds, policy_state, read_demand, recent_moves
from .profiles import Selection, select
from .slots_bind import first_remedy
from .templates import RenderedTemplates

PERIOD_SECONDS = 10.0
MOVING_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick's intermediate results."""

    demand: Demand | NoDemand
    decision: Decision | None
    selection: Selection
    steps: FleetSteps
    children: tuple[Action, ...] = ()
    templates: frozenset[str] = frozenset()
    problem: tuple[str, str] | None = None
    calibration: CalibrationStatus | None = None


def plan(snapshot: Snapshot, now: datetime, *, failure: str | None = None) -> Plan:
    """What to do next for one InferenceService.

    Args:
        snapshot: everything that is known; see `model.snapshot`.
        now: the time, UTC and aware; the only clock there is.
        failure: why an action of this snapshot's plan was refused, in the API server's words. The answer is then a plan
            without actions, whose status tells what is there and what stands in the way.
    """
    service = snapshot.service
    if service.deleting_since is not None:
        return plan_deletion(snapshot, now, failure)
    demand, selection = read_demand(snapshot, now), select(snapshot)
    if snapshot.hardware is None:
        problem = (Reason.HARDWARE_CLASS_MISSING, f"HardwareClass {service.spec.hardware_class} does not exist: nothing is made or changed")
        return _describe(snapshot, _nothing(snapshot, demand, selection, problem), now)
    try:
        templates = RenderedTemplates(service, snapshot.hardware)
        children = templates.children(selection.calibration, snapshot.images)
    except InvalidArguments as error:
        return _describe(snapshot, _nothing(snapshot, demand, selection, (Reason.INVALID_ARGUMENTS, str(error))), now)
    context = rollout_context(service.spec, snapshot, templates, now)
    fleet = fleet_state(snapshot, context, now)
    decision = decide(
        spec=service.spec, demand=demand, fleet=fleet, state=policy_state(snapshot), now=now, calibration=selection.calibration
    )
    if failure is not None:
        failed = _nothing(snapshot, demand, selection, (Reason.RECONCILE_FAILED, failure))
        return _describe(snapshot, replace(failed, decision=decision), now)
    course = calibration_course(snapshot, snapshot.hardware, context=context, demand=demand, decision=decision, selection=selection)
    tick = Tick(
        demand=demand,
        decision=decision,
        selection=selection,
        steps=step_fleet(snapshot, context, decision, fleet, course),
        calibration=course.status,
        children=_children(snapshot, children),
        templates=frozenset(context.templates.digest(mode) for mode in Mode),
    )
    return _describe(snapshot, tick, now)


def _nothing(snapshot: Snapshot, demand: Demand | NoDemand, selection: Selection, problem: tuple[str, str]) -> Tick:
    """Nothing can be done: the slots are only looked at."""
    before = snapshot.service.status.calibration
    steps = FleetSteps(snapshot=snapshot)
    return Tick(demand=demand, decision=None, selection=selection, steps=steps, problem=problem, calibration=before)


def _children(snapshot: Snapshot, wanted: tuple[Manifest | EnsureSecret, ...]) -> tuple[Action, ...]:
    """Apply what is missing or rendered otherwise; leave alone what is not ours."""
    there = {(child.kind, child.name): child for child in snapshot.children}
    taken = {(conflict.kind, conflict.name) for conflict in snapshot.conflicts}
    actions: list[Action] = []
    for item in wanted:
        manifest = item.manifest if isinstance(item, EnsureSecret) else item
        key = (str(manifest["kind"]), str(manifest["metadata"]["name"]))
        child: Child | None = there.get(key)
        if key in taken or (child is not None and child.deleting):
            continue
        if isinstance(item, EnsureSecret):
            actions.extend([item] if child is None else [])
        elif child is None or child.digest != stamped_digest(item):
            actions.append(ApplyObject(manifest=item, why=f"{key[0]} {key[1]} {'is missing' if child is None else 'changed'}"))
    return tuple(actions)


def _describe(snapshot: Snapshot, tick: Tick, now: datetime) -> Plan:
    """Status, events and the plan around the tick's actions."""
    before = snapshot.service.status
    entries = history.merge(before.history, _states(snapshot, tick))
    new = status.build(_parts(_findings(snapshot, tick, now), entries, now), now)
    moving = any(step.moving for step in tick.steps.steps.values()) or bool(tick.steps.actions)
    return Plan(
        actions=(*tick.children, *tick.steps.actions),
        status=new,
        write_status=status.worth_a_write(before, new, now),
        events=(
            *history.events(before.history, entries),
            *tick.steps.events,
            *_hold_events(snapshot, tick),
            *_problem_events(snapshot, tick),
        ),
        requeue_seconds=MOVING_SECONDS if moving else PERIOD_SECONDS,
    )


def _states(snapshot: Snapshot, tick: Tick) -> dict[str, RolloutState]:
    """Rollout state of every slot after the tick, those that it creates too."""
    states = {slot.name: step.state if (step := tick.steps.steps.get(slot.name)) else state_of(slot) for slot in snapshot.slots}
    return states | {slot_name(snapshot.service.name, index): state for index, _, state in tick.steps.created}


def _findings(snapshot: Snapshot, tick: Tick, now: datetime) -> Findings:
    policy = _policy(snapshot, tick, now)
    return Findings(
        snapshot=snapshot,
        slots=_lines(snapshot, tick, now),
        mix=desired_mix(snapshot.slots),
        demand=tick.demand,
        decision=tick.decision,
        policy=policy,
        selection=tick.selection,
        remedy=first_remedy(snapshot, tick.selection, policy),
        templates=tick.templates,
        problem=tick.problem,
        calibration=tick.calibration,
    )


def _parts(found: Findings, entries: tuple[HistoryEntry, ...], now: datetime) -> status.Parts:
    service, hardware = found.snapshot.service, found.snapshot.hardware
    outlook = found.decision.outlook if found.decision is not None else None
    return status.Parts(
        found=found,
        history=entries,
        conditions=conditions.build(found, now),
        median_flip_seconds=flip_seconds(service.status.model_copy(update={"history": entries})),
        image=engine_image(service.spec, hardware.spec) if hardware else None,
        served_name=served_name(service.spec.model),
        profile=prediction.profile_in_use(found.selection, found.remedy),
        loop=prediction.loop_seen(outlook),
        outlook=prediction.outlook_seen(outlook),
    )


def _lines(snapshot: Snapshot, tick: Tick, now: datetime) -> tuple[SlotStatus, ...]:
    lines: dict[int, SlotStatus] = {}
    known = {line.name: line for line in snapshot.service.status.slots}
    for slot in snapshot.slots:
        step, pods = tick.steps.steps.get(slot.name), pods_of(slot, snapshot.pods)
        if step is None and slot.name in known and is_moving(state_of(slot)):
            lines[slot.index] = known[slot.name]
        else:
            lines[slot.index] = status.slot_status(slot.name, step or resting(slot, pods), slot.mode, pods, snapshot)
    for index, _, state in tick.steps.created:
        lines[index] = status.created_status(slot_name(snapshot.service.name, index), state, now)
    return tuple(line for _, line in sorted(lines.items()))


def _policy(snapshot: Snapshot, tick: Tick, now: datetime) -> PolicyState:
    state = tick.decision.state if tick.decision is not None else policy_state(snapshot)
    moves = set(recent_moves(snapshot, now))
    started = [step.state for step in tick.steps.steps.values()] + [state for _, _, state in tick.steps.created]
    moves |= {
        item.decided_at.replace(microsecond=0)
        for item in started
        if item.decided_at is not None and (now - item.decided_at).total_seconds() < 3600
    }
    texts = tuple(history.timestamp(at) for at in sorted(moves))[-120:]
    return state.model_copy(update={"recent_moves": texts})


def _hold_events(snapshot: Snapshot, tick: Tick) -> tuple[Event, ...]:
    """One event when the reason to hold changes; quiet reasons make none."""
    decision, before = tick.decision, snapshot.service.status.decision
    if decision is None or decision.move_to is not None or decision.reason in WITHOUT_EVENT:
        return ()
    if before is not None and before.reason == decision.reason:
        return ()
    kind = EventType.WARNING if isinstance(tick.demand, NoDemand) else EventType.NORMAL
    return (Event(type=kind, reason=Reason.HOLDING, message=f"{decision.reason}: {decision.message}", action="Decide"),)


def _problem_events(snapshot: Snapshot, tick: Tick) -> tuple[Event, ...]:
    """One event when a spec turns out to be one that cannot be carried out. A refused action has its own, from whoever met it."""
    if tick.problem is None or tick.problem[0] == Reason.RECONCILE_FAILED:
        return ()
    degraded = (found for found in snapshot.service.status.conditions if found.type is ConditionType.DEGRADED)
    if any((found.reason, found.message) == tick.problem for found in degraded):
        return ()
    return (Event(type=EventType.WARNING, reason=Reason(tick.problem[0]), message=tick.problem[1], action="Reconcile"),)
