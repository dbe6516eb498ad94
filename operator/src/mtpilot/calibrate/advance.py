"""One tick of a calibration.

Level-based as a rollout is: the slot's own state says for which run it is out of rotation, the ConfigMap says what was measured, the
Jobs what is measured now. Whatever process dies, the next tick finds these and goes on; a run that has ended is concluded again, to the
same profile, until status says so.
"""

from dataclasses import replace
from datetime import datetime

from mtpilot.api.status import CalibrationPhase, CalibrationStatus
from mtpilot.model.measuring import RunState
from mtpilot.model.plan import Action, ApplyObject
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Slot
from mtpilot.rollout.choose import active
from mtpilot.rollout.pods import in_flight, live
from mtpilot.rollout.step import state_of
from mtpilot.rollout.writes import set_state

from .away import go_on
from .course import ORDER, Course, Scene, event, timestamp, told
from .giving_back import give_back, send_home, stop_jobs
from .room import peers_of, why_give_back, why_not_take
from .wanted import Run


def advance_calibration(scene: Scene) -> Course:
    """What to do now. Actions are in order; each is safe to repeat."""
    slot = scene.slot_away()
    run = scene.run if slot is None else _run_of_slot(scene, slot)
    ended = _ended(scene, run) if run is not None and (slot is not None or scene.wanted is not None) else None
    if ended is not None:
        return ended
    if slot is not None:
        return _away(scene, slot)
    wanted = scene.wanted
    if wanted is None:
        return replace(send_home(scene), status=_last(scene))
    return _waiting(scene, wanted)


def _last(scene: Scene) -> CalibrationStatus | None:
    """How the last one ended is told as long as the spec says anything about calibrations."""
    before = scene.before
    over = before is not None and before.phase in (CalibrationPhase.FINISHED, CalibrationPhase.FAILED)
    return before if over and scene.run is not None else None


def _run_of_slot(scene: Scene, slot: Slot) -> Run:
    """The run that a slot is away for; the present spec may ask for another one."""
    key = state_of(slot).calibration or ""
    run = scene.run
    return run if run is not None and run.key == key else Run(request=key.partition("/")[0], key=key)


def _ended(scene: Scene, run: Run) -> Course | None:
    """Both modes were measured, or one failed: the profile, or why there is none."""
    records, slot = scene.snapshot.calibration.records, scene.slot_away()
    if records is None or records.run != run.key:
        return None
    failed = next((found.message for found in records.progress.values() if found.state is RunState.FAILED), records.problem)
    if failed is not None:
        return fail(scene, run, failed)
    if not all(records.is_measured(mode) for mode in ORDER):
        return None
    if records.profile is None:
        return fail(scene, run, "both modes were measured, but the records hold no profile")
    if (foreign := _foreign_profile(scene)) is not None:
        return fail(scene, run, foreign)
    name = scene.profile_name
    message = f"ThroughputProfile {name} was written"
    status = told(scene, run, CalibrationPhase.FINISHED, message)
    write = ApplyObject(manifest=scene.objects.profile(records.profile), why=f"calibration {run.request} has measured both modes")
    back = give_back(scene, slot, home=True) if slot is not None else Course()
    return replace(
        back,
        status=status,
        actions=(*stop_jobs(scene.snapshot.calibration), *back.actions),
        makes=(write,),
        events=(*back.events, event(Reason.CALIBRATION_FINISHED, message)),
    )


def _foreign_profile(scene: Scene) -> str | None:
    found = next((profile for profile in scene.snapshot.profiles if profile.name == scene.profile_name), None)
    if found is None or found.owner_uid == scene.snapshot.service.uid:
        return None
    return f"ThroughputProfile {found.name} is not ours: it is left alone; delete it, or set another spec.profile.name"


def fail(scene: Scene, run: Run, why: str) -> Course:
    """It becomes no profile, and is not tried again by itself."""
    slot = scene.slot_away()
    back = give_back(scene, slot, home=True) if slot is not None else Course()
    return replace(
        back,
        status=told(scene, run, CalibrationPhase.FAILED, why),
        actions=(*stop_jobs(scene.snapshot.calibration), *back.actions),
        events=(*back.events, event(Reason.CALIBRATION_FAILED, f"no profile was made: {why}"[:1024], warning=True)),
    )


def _away(scene: Scene, slot: Slot) -> Course:
    """A slot is out of rotation: go on with it, or give it back."""
    run, wanted = _run_of_slot(scene, slot), scene.wanted
    if wanted is None or wanted.key != run.key:
        back = give_back(scene, slot, home=wanted is None)
        status = None if wanted is None else told(scene, wanted, CalibrationPhase.WAITING, "the engines' arguments or the request changed")
        return replace(back, status=status or _last(scene), actions=(*stop_jobs(scene.snapshot.calibration), *back.actions))
    why = _why_give_back(scene, slot)
    if why is None:
        outcome = go_on(scene, slot, run)
        if isinstance(outcome, Course):
            return outcome
        if outcome.failed:
            return fail(scene, run, outcome.why)
        why = outcome.why
    return _paused(scene, slot, run, why)


def _why_give_back(scene: Scene, slot: Slot) -> str | None:
    snapshot = scene.snapshot
    if not scene.settled:
        return "the other replicas have to take a new template"
    if len(active(snapshot.slots)) != scene.spec.replicas:
        return f"spec.replicas is {scene.spec.replicas}"
    peers = peers_of(slot, snapshot, scene.curves)
    samples = scene.decision.state.queued_samples
    return why_give_back(peers, scene.demand, queued_samples=samples, replicas=scene.spec.replicas)


def _paused(scene: Scene, slot: Slot, run: Run, why: str) -> Course:
    back = give_back(scene, slot, home=False)
    message = f"given back: {why}; what was measured is kept, and it goes on after {scene.now + scene.pause:%H:%M:%SZ} at the earliest"
    status = told(scene, run, CalibrationPhase.WAITING, message).model_copy(update={"paused_at": timestamp(scene.now)})
    return replace(
        back,
        status=status,
        actions=(*stop_jobs(scene.snapshot.calibration), *back.actions),
        events=(*back.events, event(Reason.CALIBRATION_PAUSED, f"{slot.name} is given back: {why}")),
    )


def _waiting(scene: Scene, run: Run) -> Course:
    """Nothing is away: take a slot, or say what stands in the way."""
    slot = _choose(scene, run)
    why = "no replica is there" if slot is None else _why_not_now(scene, slot, run)
    if slot is None or why is not None:
        status = told(scene, run, CalibrationPhase.WAITING, why or "")
        return Course(status=status, actions=stop_jobs(scene.snapshot.calibration))
    state = state_of(slot)
    state = replace(state, calibration=run.key, calibrating_since=scene.now, home_mode=state.home_mode or state.desired_mode)
    taken = replace(slot, state=state)
    course = go_on(scene, taken, run)
    if not isinstance(course, Course):  # not before it was tried
        return Course(status=told(scene, run, CalibrationPhase.WAITING, course.why))
    step = course.steps[slot.name]
    actions: tuple[Action, ...] = (set_state(slot, state), *(action for action in step.actions if action != set_state(slot, state)))
    message = f"{slot.name} is taken out of rotation to be measured"
    return replace(
        course, steps={slot.name: replace(step, actions=actions)}, events=(*course.events, event(Reason.CALIBRATION_STARTED, message))
    )


def _pause_ends(scene: Scene) -> datetime | None:
    before = scene.before
    at = before.paused_at if before is not None else None
    return datetime.fromisoformat(at) + scene.pause if at is not None else None


def _why_not_now(scene: Scene, slot: Slot, run: Run) -> str | None:
    snapshot, ends = scene.snapshot, _pause_ends(scene)
    if ends is not None and scene.now < ends:
        return scene.before.message if scene.before is not None else ""
    if (foreign := _foreign_profile(scene)) is not None:
        return foreign
    if scene.decision.move_to is not None:
        return f"a replica goes to {scene.decision.move_to} first"
    if not scene.settled or len(active(snapshot.slots)) != scene.spec.replicas:
        return "the fleet is not settled"
    peers = peers_of(slot, snapshot, scene.curves)
    return why_not_take(peers, scene.demand, scene.spec.replicas)


def _choose(scene: Scene, run: Run) -> Slot | None:
    """The one that was interrupted, else one that has the mode to measure already, the least busy first."""
    progress = scene.progress(run.key)
    mode = next((mode for mode in ORDER if mode not in progress or progress[mode].state is not RunState.MEASURED), ORDER[0])

    def disturbance(slot: Slot) -> tuple[bool, bool, int, int]:
        state, load = state_of(slot), in_flight(live(scene.pods(slot)), scene.snapshot.engines)
        return (state.home_mode is None, slot.mode is not mode, load if load is not None else 1 << 30, -slot.index)

    return min(active(scene.snapshot.slots), key=disturbance, default=None)
