"""A service's calibration as the core sees it: its Jobs, and the ConfigMap that they write to.

What a Job wrote is not trusted further than it can be read: a mode whose entry makes no sense was not measured.
"""

import json
from typing import Any

from pydantic import ValidationError

from mtpilot.api.inference_service import CalibrationMode, Mode
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.model.measuring import CalibrationJob, CalibrationRecords, CalibrationView, RunProgress, RunState
from mtpilot.model.names import (
    ANNOTATION_CALIBRATION,
    ANNOTATION_ENGINE_POD,
    COMPONENT_CALIBRATION,
    LABEL_COMPONENT,
    LABEL_MODE,
    LABEL_SERVICE,
    calibration_name,
)
from mtpilot.model.snapshot import Manifest, Service

from .client import KubeClient
from .fields import annotations_of, condition, is_deleting, is_owned, labels_of, metadata_of
from .paths import Ref

PROFILE_KEY, PROBLEM_KEY, RUN_KEY = "profile.json", "problem.txt", "run"


def run_of(found: Manifest) -> str:
    """The run that the operator wants in the ConfigMap; `RUN_KEY` tells of which one its data are."""
    return annotations_of(found).get(ANNOTATION_CALIBRATION, "")


def progress_key(mode: str) -> str:
    """The entry of the ConfigMap that tells how far a mode is."""
    return f"{mode}.json"


def is_asked_for(service: Service, *, away: bool) -> bool:
    """Whether there may be anything to read. away: a slot is out of rotation."""
    return away or service.status.calibration is not None or service.spec.profile.calibration is not CalibrationMode.NEVER


async def gather_calibration(client: KubeClient, service: Service) -> CalibrationView:
    """Jobs and records of the service. Raises ClusterError.

    NB: one after another: a Job that is seen to have ended has written all that it had to write before.
    """
    selector = f"{LABEL_SERVICE}={service.name},{LABEL_COMPONENT}={COMPONENT_CALIBRATION}"
    jobs = await client.list_all("batch/v1", "Job", namespace=service.namespace, label_selector=selector)
    found = await client.get(Ref(api_version="v1", kind="ConfigMap", name=calibration_name(service.name), namespace=service.namespace))
    mine = [job for job in jobs if is_owned(job, service.uid)]
    records = records_from_object(found) if found is not None and is_owned(found, service.uid) else None
    return CalibrationView(jobs=tuple(parsed for job in mine if (parsed := job_from_object(job)) is not None), records=records)


def job_from_object(job: Manifest) -> CalibrationJob | None:
    """None for one that somebody labelled like ours."""
    notes, mode = annotations_of(job), labels_of(job).get(LABEL_MODE)
    if mode not in tuple(Mode):
        return None
    failed = condition(job, "Failed")
    return CalibrationJob(
        name=metadata_of(job)["name"],
        uid=metadata_of(job)["uid"],
        run=notes.get(ANNOTATION_CALIBRATION, ""),
        mode=Mode(mode),
        pod_uid=notes.get(ANNOTATION_ENGINE_POD, ""),
        failed=failed.get("status") == "True",
        succeeded=condition(job, "Complete").get("status") == "True",
        deleting=is_deleting(job),
        message=str(failed["message"]) if failed.get("message") else None,
    )


def records_from_object(found: Manifest) -> CalibrationRecords:
    """What stands in the ConfigMap of the run that it is of now."""
    data, run = found.get("data") or {}, run_of(found)
    data = data if data.get(RUN_KEY) == run else {}
    profile, problem = _profile(data.get(PROFILE_KEY))
    progress = {mode: told for mode in Mode if (told := _progress(data.get(progress_key(mode)))) is not None}
    return CalibrationRecords(
        uid=metadata_of(found)["uid"],
        run=run,
        progress=progress,
        profile=profile,
        problem=data.get(PROBLEM_KEY) or problem,
    )


def progress_document(progress: RunProgress) -> str:
    """The entry of a mode; `records_from_object` reads it."""
    told: dict[str, Any] = {"state": progress.state, "done": progress.done, "total": progress.total, "message": progress.message}
    return json.dumps(told | ({"secondsLeft": progress.seconds_left} if progress.seconds_left is not None else {}), ensure_ascii=False)


def _progress(text: str | None) -> RunProgress | None:
    if text is None:
        return None
    try:
        told = json.loads(text)
        left = told.get("secondsLeft")
        return RunProgress(
            state=RunState(told["state"]),
            done=max(0, int(told["done"])),
            total=max(0, int(told["total"])),
            seconds_left=max(0.0, float(left)) if left is not None else None,
            message=str(told.get("message") or ""),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _profile(text: str | None) -> tuple[ThroughputProfileSpec | None, str | None]:
    if text is None:
        return None, None
    try:
        return ThroughputProfileSpec.model_validate_json(text), None
    except ValidationError as error:
        first = error.errors()[0]
        return None, f"the profile that was measured cannot be read: {'.'.join(map(str, first['loc']))}: {first['msg']}"
