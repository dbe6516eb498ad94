"""A slot out of rotation: empty it, bring it to the mode that is to be measured, measure it."""

from dataclasses import dataclass, replace
from datetime import datetime

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import CalibrationPhase, SlotPhase
from mtpilot.model.measuring import CalibrationJob, RunState
from mtpilot.model.plan import Action, ApplyObject, DeleteObject
from mtpilot.model.slots import Pod, RolloutState, Slot
from mtpilot.rollout.context import Step, blocked_until
from mtpilot.rollout.drain import stop_serving
from mtpilot.rollout.pods import in_flight, live, with_digest
from mtpilot.rollout.replace import why_not_ready
from mtpilot.rollout.step import advance, begin_move, is_moving, state_of

from .course import ORDER, Course, Scene, told
from .wanted import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """It cannot go on. failed: and would not another time either."""

    why: str
    failed: bool


def go_on(scene: Scene, slot: Slot, run: Run) -> Course | Halt:
    """The next step of a slot that is away for `run`; not both modes are measured yet."""
    state, pods = state_of(slot), scene.pods(slot)
    mode = next_mode(scene, run)
    if is_moving(state):
        step = advance(slot, pods, scene.context, may_start=False)
        return _course(scene, slot, run, mode, step, CalibrationPhase.STARTING, step.message or "")
    digest = scene.context.templates.digest(mode)
    if slot.digest != digest:
        return _flip(scene, slot, run, mode, replace(state, desired_mode=mode))
    pod = with_digest(pods, slot.digest)
    if pod is None or not pod.ready:
        return _not_ready(scene, slot, run, mode, pod)
    if (waits := _empty(scene, slot, pod)) is not None:
        return waits if isinstance(waits, Halt) else _course(scene, slot, run, mode, waits, CalibrationPhase.DRAINING, waits.message or "")
    return _measure(scene, slot, run, mode, pod)


def next_mode(scene: Scene, run: Run) -> Mode:
    """The first of both that is not measured."""
    progress = scene.progress(run.key)
    return next((mode for mode in ORDER if mode not in progress or progress[mode].state is not RunState.MEASURED), ORDER[-1])


def _course(  # noqa: PLR0917 - what it is of, then what it is
    scene: Scene, slot: Slot, run: Run, mode: Mode, step: Step, phase: CalibrationPhase, message: str
) -> Course:
    status = told(scene, run, phase, message, slot=slot.name, mode=mode)
    return Course(status=status, steps={slot.name: replace(step, moving=True)})


def _resting(state: RolloutState, message: str, *actions: Action, since: datetime | None = None) -> Step:
    return Step(phase=SlotPhase.CALIBRATING, state=state, actions=actions, since=since or state.calibrating_since, message=message)


def _flip(scene: Scene, slot: Slot, run: Run, mode: Mode, state: RolloutState) -> Course | Halt:
    blocked = blocked_until(scene.context.templates.digest(mode), scene.context)
    if blocked is not None:
        return Halt(why=f"{slot.name} was not ready in {mode} in time; another template, or another request, tries again", failed=True)
    step = begin_move(slot, scene.pods(slot), state, scene.context)
    course = _course(scene, slot, run, mode, step, CalibrationPhase.STARTING, f"{slot.name} goes over to {mode}")
    return replace(course, actions=_delete(scene, list(scene.snapshot.calibration.jobs), "its mode was measured"))


def _not_ready(scene: Scene, slot: Slot, run: Run, mode: Mode, pod: Pod | None) -> Course | Halt:
    since = max(filter(None, (state_of(slot).calibrating_since, pod.created_at if pod is not None else None)), default=scene.now)
    why = why_not_ready(slot, pod)
    if scene.now >= since + scene.context.ready_timeout:
        return Halt(why=f"{slot.name} is not ready in {mode}: {why}", failed=False)
    return _course(scene, slot, run, mode, _resting(state_of(slot), why), CalibrationPhase.STARTING, why)


def _empty(scene: Scene, slot: Slot, pod: Pod) -> Step | Halt | None:
    """Out of rotation and without a request; None: it is. While a Job measures the pod its requests are the Job's own."""
    stop = stop_serving(scene.pods(slot))
    if any(job.pod_uid == pod.uid and not job.deleting for job in scene.snapshot.calibration.jobs) and not stop:
        return None
    state = state_of(slot)
    since = max(filter(None, (state.calibrating_since, pod.ready_since)), default=scene.now)
    left = in_flight(live(scene.pods(slot)), scene.snapshot.engines)
    if not stop and left == 0 and scene.now >= since + scene.context.settle:
        return None
    if scene.now >= since + scene.context.drain_timeout:
        return Halt(why=f"{slot.name} did not finish its requests within rollout.drainTimeout", failed=False)
    words = (
        "no request in flight" if left == 0 else "its engine does not answer" if left is None else f"waits for {left} requests in flight"
    )
    return _resting(state, words, *stop)


def _measure(scene: Scene, slot: Slot, run: Run, mode: Mode, pod: Pod) -> Course | Halt:
    view, state = scene.snapshot.calibration, state_of(slot)
    mine = [job for job in view.jobs if (job.run, job.mode, job.pod_uid) == (run.key, mode, pod.uid) and not job.deleting]
    others = [job for job in view.jobs if job not in mine]
    if (silent := _silent(scene, slot, run, mode, pod)) is not None:
        return silent
    kept = view.records is not None and view.records.run == run.key
    if not kept or others:
        made = () if kept else (ApplyObject(manifest=scene.objects.records(run.key), why="a calibration begins"),)
        course = _course(scene, slot, run, mode, _resting(state, "prepares"), CalibrationPhase.MEASURING, f"prepares to measure {mode}")
        return replace(course, actions=_delete(scene, others, "it is of an earlier pod or mode"), makes=made)
    if not mine:
        start = ApplyObject(manifest=scene.objects.job(run.key, slot, pod), why=f"measures {slot.name} in {mode}")
        course = _course(
            scene, slot, run, mode, _resting(state, f"is measured in {mode}"), CalibrationPhase.MEASURING, f"begins to measure {mode}"
        )
        return replace(course, makes=(start,))
    (job,) = mine
    if job.failed or job.succeeded:
        return Halt(why=_ended_badly(scene, run, job), failed=True)
    progress = scene.progress(run.key).get(mode)
    message = progress.message if progress is not None and progress.message else f"{mode} is measured"
    return _course(scene, slot, run, mode, _resting(state, f"is measured in {mode}"), CalibrationPhase.MEASURING, message)


def _silent(scene: Scene, slot: Slot, run: Run, mode: Mode, pod: Pod) -> Halt | None:
    """A Job that could not be made, or whose pod does not start: the slot is not kept away for it."""
    since = max(filter(None, (state_of(slot).calibrating_since, pod.ready_since)), default=scene.now)
    if mode in scene.progress(run.key) or scene.now < since + scene.context.drain_timeout + scene.context.ready_timeout:
        return None
    return Halt(why=f"the Job that measures {slot.name} in {mode} tells nothing: it, or its pod, could not be made or started", failed=True)


def _ended_badly(scene: Scene, run: Run, job: CalibrationJob) -> str:
    progress = scene.progress(run.key).get(job.mode)
    told_by_it = progress.message if progress is not None else ""
    return f"Job {job.name} ended without a whole measurement: {job.message or told_by_it or 'its pod tells no reason'}"


def _delete(scene: Scene, jobs: list[CalibrationJob], why: str) -> tuple[Action, ...]:
    return tuple(DeleteObject(api_version="batch/v1", kind="Job", name=job.name, uid=job.uid, why=why) for job in jobs if not job.deleting)
