"""The way back: into rotation at once, and home when there is time for it."""

from dataclasses import replace

from mtpilot.api.inference_service import Mode, PolicyMode
from mtpilot.api.status import SlotPhase
from mtpilot.model.measuring import CalibrationView
from mtpilot.model.plan import Action, DeleteObject
from mtpilot.model.slots import RolloutState, Slot
from mtpilot.rollout.choose import active
from mtpilot.rollout.context import Step, blocked_until
from mtpilot.rollout.drain import resume_serving
from mtpilot.rollout.step import advance, state_of
from mtpilot.rollout.writes import set_state

from .course import Course, Scene


def stop_jobs(view: CalibrationView) -> tuple[Action, ...]:
    """No Job is left."""
    return tuple(
        DeleteObject(api_version="batch/v1", kind="Job", name=job.name, uid=job.uid, why="nothing is to be measured now")
        for job in view.jobs
        if not job.deleting
    )


def give_back(scene: Scene, slot: Slot, *, home: bool) -> Course:
    """The slot is a replica like the others again.

    home: to the mode that the policy wants, by way of a flip where it is not in it. Else as it is, since it is needed now; where it
    came from is remembered.
    """
    state = state_of(slot)
    to = _home(scene, slot, state) if home else slot.mode
    left = replace(state, calibration=None, calibrating_since=None, home_mode=None if home else state.home_mode, desired_mode=to)
    if left.replace_started_at is not None or left.drain_started_at is not None:
        step = advance(replace(slot, state=left), scene.pods(slot), scene.context, may_start=False)
        first = set_state(slot, left)
        return Course(steps={slot.name: replace(step, actions=(first, *(one for one in step.actions if one != first)))})
    serves = () if to is not slot.mode else resume_serving(scene.pods(slot))
    phase = SlotPhase.SERVING if to is slot.mode else SlotPhase.PENDING
    step = Step(phase=phase, state=left, actions=(set_state(slot, left), *serves), since=scene.now, moving=True)
    return Course(steps={slot.name: step})


def _home(scene: Scene, slot: Slot, state: RolloutState) -> Mode:
    """The mode that the recommended mix lacks, where the operator moves the mix; else the one that the slot had."""
    home = state.home_mode or slot.mode
    decision, templates = scene.decision, scene.context.templates
    if scene.usable and scene.spec.policy.mode is not PolicyMode.RECOMMEND_ONLY:
        others = [state_of(other).desired_mode for other in active(scene.snapshot.slots) if other.name != slot.name]
        short = [mode for mode in Mode if others.count(mode) < decision.recommended.count(mode)]
        home = home if home in short or not short else short[0]
    return slot.mode if blocked_until(templates.digest(home), scene.context) is not None else home


def send_home(scene: Scene) -> Course:
    """A slot that was given back early and is not measured any more: to where it came from, when it costs nothing to wait."""
    for slot in active(scene.snapshot.slots):
        state = state_of(slot)
        if state.home_mode is None or state.is_calibrating or not scene.settled:
            continue
        left = replace(state, home_mode=None, desired_mode=_home(scene, slot, state))
        return Course(actions=(set_state(slot, left),))
    return Course(actions=stop_jobs(scene.snapshot.calibration))
