"""What is read of a calibration's Jobs and ConfigMap."""

from typing import Any

from mtpilot.adapters.kube.calibration import job_from_object, progress_document, progress_key, records_from_object
from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.model.measuring import RunProgress, RunState
from tests import profiles

MEASURING = RunProgress(state=RunState.MEASURING, done=3, total=9, seconds_left=61.5, message="mtp: 8 at once is next")


def config_map(**data: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "chat-calibration", "uid": "u1", "annotations": {"mtpilot.dev/calibration": "one/ab"}},
        "data": {"run": "one/ab"} | data,
    }


def test_progress_is_read_as_it_was_written():
    found = records_from_object(config_map(**{progress_key("mtp"): progress_document(MEASURING)}))
    assert (found.run, found.progress, found.profile, found.problem) == ("one/ab", {Mode.MTP: MEASURING}, None, None)


def test_nonsense_was_not_measured():
    texts = ("", "[]", "{}", '{"state": "Done", "done": 1, "total": 1}', '{"state": "Measured", "done": null, "total": 1}')
    for text in texts:
        assert records_from_object(config_map(**{"batch.json": text})).progress == {}


def test_a_profile_is_read_or_the_field_is_named():
    spec = ThroughputProfileSpec.model_validate(profiles.document())
    good = records_from_object(config_map(**{"profile.json": spec.model_dump_json(by_alias=True, exclude_none=True)}))
    assert (good.profile, good.problem) == (spec, None)
    bad = records_from_object(config_map(**{"profile.json": '{"hardwareClass": "rtx"}'}))
    assert bad.profile is None
    assert "model: Field required" in (bad.problem or "")


def test_an_empty_config_map_has_nothing():
    found = records_from_object({"metadata": {"name": "chat-calibration", "uid": "u1"}})
    assert (found.run, dict(found.progress)) == ("", {})


def job(**status: Any) -> dict[str, Any]:
    metadata = {
        "name": "chat-calibration-mtp",
        "uid": "j1",
        "labels": {"mtpilot.dev/mode": "mtp"},
        "annotations": {"mtpilot.dev/calibration": "one/ab", "mtpilot.dev/engine-pod": "p1"},
    }
    return {"metadata": metadata, "status": status}


def test_a_job_says_what_it_is_of_and_how_it_ended():
    running = job_from_object(job(active=1))
    assert running is not None
    assert (running.run, running.mode, running.pod_uid, running.failed, running.succeeded) == ("one/ab", Mode.MTP, "p1", False, False)
    failed = job_from_object(
        job(conditions=[{"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}])
    )
    assert failed is not None
    assert (failed.failed, failed.message) == (True, "Job has reached the specified backoff limit")
    done = job_from_object(job(conditions=[{"type": "Complete", "status": "True"}]))
    assert done is not None
    assert done.succeeded


def test_a_job_without_a_mode_is_not_ours():
    assert job_from_object({"metadata": {"name": "x", "uid": "y"}}) is None
