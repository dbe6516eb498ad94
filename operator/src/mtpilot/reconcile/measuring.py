"""The operator's own calibration in a tick: what the course looks at, and what it makes in the cluster."""

from dataclasses import dataclass

from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.calibrate.advance import advance_calibration
from mtpilot.calibrate.course import Course, Scene
from mtpilot.model.decision import Decision, Demand, NoDemand
from mtpilot.model.slots import Pod, Slot
from mtpilot.model.snapshot import HardwareView, Manifest, Snapshot
from mtpilot.render.calibration import profile_name, render_job, render_profile, render_records
from mtpilot.rollout.choose import active
from mtpilot.rollout.context import Context
from mtpilot.rollout.step import is_moving, state_of

from .profiles import Selection
from .templates import running_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """`calibrate.course.Objects` of one service."""

    snapshot: Snapshot
    hardware: HardwareView

    def records(self, run: str) -> Manifest:
        return render_records(self.snapshot.service, run)

    def job(self, run: str, slot: Slot, pod: Pod) -> Manifest:
        return render_job(self.snapshot.service, self.hardware, self.snapshot.images, run=run, slot=slot, pod=pod)

    def profile(self, spec: ThroughputProfileSpec) -> Manifest:
        return render_profile(self.snapshot.service, spec, running_flags(self.snapshot.service, self.hardware))


def calibration_course(
    snapshot: Snapshot, hardware: HardwareView, *, context: Context, demand: Demand | NoDemand, decision: Decision, selection: Selection
) -> Course:
    """What this tick does for the calibration that the spec asks for; nothing where it asks for none."""
    calibration = selection.calibration
    scene = Scene(
        snapshot=snapshot,
        context=context,
        objects=_Rendered(snapshot=snapshot, hardware=hardware),
        demand=demand,
        decision=decision,
        settled=_is_settled(snapshot, context),
        usable=calibration is not None,
        curves=calibration.curves if calibration is not None else None,
        profile_name=profile_name(snapshot.service),
    )
    return advance_calibration(scene)


def _is_settled(snapshot: Snapshot, context: Context) -> bool:
    """Whether every slot, but the one that is away, stands still in the template that it shall have."""
    for slot in snapshot.slots:
        state = state_of(slot)
        if state.is_calibrating and not slot.deleting:
            continue
        if slot.deleting or is_moving(state) or slot.digest != context.templates.digest(state.desired_mode):
            return False
    return bool(active(snapshot.slots))
