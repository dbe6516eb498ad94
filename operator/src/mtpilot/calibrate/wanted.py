"""Whether a service wants a calibration now, which one, and how it is told from the ones before."""

from dataclasses import dataclass

from mtpilot.api.inference_service import CalibrationMode, InferenceServiceSpec, Mode
from mtpilot.api.status import CalibrationPhase, CalibrationStatus
from mtpilot.render.digest import digest
from mtpilot.rollout.context import Templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A calibration. request: what asked for it, as status tells it. key: with what is measured, and how: another makes another run."""

    request: str
    key: str


def run_of(spec: InferenceServiceSpec, templates: Templates) -> Run | None:
    """The run that the spec may ask for; None: it asks for none, whatever there is."""
    how = digest([spec.profile.run.model_dump(mode="json"), spec.workload.input_tokens, spec.workload.sampling])
    measured = f"{templates.digest(Mode.MTP)}-{templates.digest(Mode.BATCH)}-{how}"
    match spec.profile.calibration:
        case CalibrationMode.NEVER:
            return None
        case CalibrationMode.WHEN_MISSING:
            return Run(request=f"missing-{measured}", key=f"missing-{measured}")
        case CalibrationMode.REQUESTED:
            request = spec.profile.request_id or ""
            return Run(request=request, key=f"{request}/{measured}")


def wanted_run(run: Run | None, spec: InferenceServiceSpec, before: CalibrationStatus | None, *, usable: bool) -> Run | None:
    """The run that is still to be made.

    before: what status said last. usable: there is a profile to decide by. One that failed is not tried again by itself: it would take
    a replica away for the same answer.
    """
    if run is None:
        return None
    same = before is not None and before.request_id == run.request
    if same and before is not None and before.phase is CalibrationPhase.FAILED:
        return None
    if spec.profile.calibration is CalibrationMode.WHEN_MISSING:
        return None if usable else run
    return None if same and before is not None and before.phase is CalibrationPhase.FINISHED else run
