"""The course of one calibration: what it looks at, and what a tick makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import CalibrationPhase, CalibrationStatus
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.api.types import format_duration, parse_duration
from mtpilot.curves.curve import CurvePair
from mtpilot.model.decision import Decision, Demand, NoDemand
from mtpilot.model.measuring import RunProgress
from mtpilot.model.plan import Action, Event, EventType
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Pod, Slot
from mtpilot.model.snapshot import Manifest, Snapshot
from mtpilot.rollout.choose import active, pods_of
from mtpilot.rollout.context import Context, Step
from mtpilot.rollout.step import state_of

from .wanted import Run, run_of, wanted_run

ORDER = (Mode.MTP, Mode.BATCH)


class Objects(Protocol):
    """Renderings of what a calibration makes in the cluster."""

    def records(self, run: str) -> Manifest:
        """The ConfigMap, empty."""
        ...

    def job(self, run: str, slot: Slot, pod: Pod) -> Manifest:
        """The Job that measures a pod in the slot's mode."""
        ...

    def profile(self, spec: ThroughputProfileSpec) -> Manifest:
        """The ThroughputProfile that a run gives."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What one tick looks at. settled: no other slot moves or has to. curves: of the profile in use. profile_name: to be written."""

    snapshot: Snapshot
    context: Context
    objects: Objects
    demand: Demand | NoDemand
    decision: Decision
    settled: bool
    usable: bool
    curves: CurvePair | None
    profile_name: str

    @property
    def spec(self) -> InferenceServiceSpec:
        return self.snapshot.service.spec

    @property
    def before(self) -> CalibrationStatus | None:
        return self.snapshot.service.status.calibration

    @property
    def now(self) -> datetime:
        return self.context.now

    @property
    def pause(self) -> timedelta:
        """How long a slot stays in rotation after it was given back early."""
        return parse_duration(self.spec.policy.min_dwell)

    @property
    def run(self) -> Run | None:
        """The run that the spec may ask for."""
        return run_of(self.spec, self.context.templates)

    @property
    def wanted(self) -> Run | None:
        """The run that is still to be made."""
        return wanted_run(self.run, self.spec, self.before, usable=self.usable)

    def slot_away(self) -> Slot | None:
        """The slot that is out of rotation."""
        return next((slot for slot in active(self.snapshot.slots) if state_of(slot).is_calibrating), None)

    def pods(self, slot: Slot) -> tuple[Pod, ...]:
        return pods_of(slot, self.snapshot.pods)

    def progress(self, run: str) -> Mapping[Mode, RunProgress]:
        """What is kept of a run."""
        records = self.snapshot.calibration.records
        return records.progress if records is not None and records.run == run else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a tick does for the calibration. steps: of the slot that is, or was until now, out of rotation, by name.

    actions: what ends a measurement; they come before everything else. makes: what the API server may refuse; they come after it.
    """

    status: CalibrationStatus | None = None
    steps: Mapping[str, Step] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    makes: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()


def timestamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def event(reason: Reason, message: str, *, warning: bool = False) -> Event:
    return Event(type=EventType.WARNING if warning else EventType.NORMAL, reason=reason, message=message, action="Calibrate")


def told(
    scene: Scene, run: Run, phase: CalibrationPhase, message: str, *, slot: str | None = None, mode: Mode | None = None
) -> CalibrationStatus:
    """The status of a run; when it began and was last given back is kept."""
    progress = scene.progress(run.key)
    before = scene.before if scene.before is not None and scene.before.request_id == run.request else None
    current = progress.get(mode) if mode is not None else None
    left = current.seconds_left if current is not None and phase is CalibrationPhase.MEASURING else None
    return CalibrationStatus(
        phase=phase,
        request_id=run.request,
        slot=slot,
        mode=mode,
        done=sum(found.done for found in progress.values()) if progress else None,
        total=sum(found.total for found in progress.values()) if progress else None,
        time_left=format_duration(timedelta(seconds=round(left))) if left is not None else None,
        started_at=(before.started_at if before is not None else None) or (timestamp(scene.now) if slot is not None else None),
        paused_at=before.paused_at if before is not None else None,
        message=message[:1024],
    )
