"""Pods: what may hold requests, what is broken, what cannot start."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mtpilot.adapters.kube.pods import pod_from_object
from mtpilot.api.inference_service import Mode
from mtpilot.model.slots import Pod

from .live import condition, pod


def read(**changes: Any) -> Pod:
    found = pod_from_object(pod(**changes))
    assert found is not None
    return found


def engine(**changes: Any) -> dict[str, Any]:
    return {"name": "engine", "ready": False, "started": False, "restartCount": 0, "state": {"running": {}}, **changes}


def conditions(ready: str, ready_at: str, initialized_at: str = "2026-12-01T12:00:06Z") -> list[dict[str, str]]:
    return [condition("Initialized", "True", initialized_at), condition("Ready", ready, ready_at)]


def test_a_ready_pod() -> None:
    found = read()
    assert (found.slot, found.mode, found.digest) == ("chat-r0", Mode.MTP, "0123456789ab")
    assert (found.ip, found.node) == ("10.0.3.17", "rtx-0")
    assert found.ready
    assert found.was_ready
    assert found.serving
    assert found.ready_since == datetime(2026, 12, 1, 12, 3, 40, tzinfo=UTC)
    assert (found.terminating, found.finished, found.crash_looping) == (False, False, False)


def test_a_pod_without_our_labels_is_nobodys() -> None:
    assert pod_from_object(pod(metadata={"labels": {"mtpilot.dev/mode": None}})) is None
    assert pod_from_object(pod(metadata={"labels": {"mtpilot.dev/mode": "turbo"}})) is None
    assert pod_from_object(pod(metadata={"labels": {"mtpilot.dev/slot": None}})) is None


def test_serving_label_and_deletion() -> None:
    assert not read(metadata={"labels": {"mtpilot.dev/serving": "false"}}).serving
    assert read(metadata={"labels": {"mtpilot.dev/serving": None}}).serving
    assert read(metadata={"deletionTimestamp": "2026-12-01T13:00:00Z"}).terminating


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished(phase: str) -> None:
    assert read(status={"phase": phase}).finished


def test_loading_for_the_first_time_holds_nothing_and_is_not_broken() -> None:
    found = read(status={"conditions": conditions("False", "2026-12-01T12:00:06Z"), "containerStatuses": [engine()]})
    assert not found.ready
    assert not found.was_ready
    assert not found.crash_looping
    assert found.ready_since is None


def test_not_ready_for_a_moment_may_still_hold_requests() -> None:
    status = {"conditions": conditions("False", "2026-12-01T12:30:00Z"), "containerStatuses": [engine(started=True)]}
    found = read(status=status)
    assert not found.ready
    assert found.was_ready


def test_restarted_without_ever_getting_ready_is_a_crash_loop() -> None:
    status = {"conditions": conditions("False", "2026-12-01T12:00:06Z"), "containerStatuses": [engine(restartCount=1)]}
    assert read(status=status).crash_looping


def test_restarted_after_it_served_is_loading_again() -> None:
    status = {"conditions": conditions("False", "2026-12-01T12:30:00Z"), "containerStatuses": [engine(restartCount=1)]}
    found = read(status=status)
    assert not found.crash_looping
    assert not found.was_ready, "the new container has held no request"
    assert found.restarts == 1


def test_back_off_is_a_crash_loop_with_its_words() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
    found = read(status={"conditions": conditions("False", "2026-12-01T12:30:00Z"), "containerStatuses": [engine(state=waiting)]})
    assert found.crash_looping
    assert found.waiting_reason == "CrashLoopBackOff"
    assert found.waiting_message == "back-off 10s restarting failed container"


def test_image_trouble_of_an_init_container_is_seen_and_plain_start_up_is_not() -> None:
    pulling = {"name": "fetch", "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    creating = engine(state={"waiting": {"reason": "PodInitializing"}})
    assert read(status={"initContainerStatuses": [pulling], "containerStatuses": [creating]}).waiting_reason == "ErrImagePull"
    assert read(status={"containerStatuses": [creating]}).waiting_reason is None


def test_the_schedulers_words() -> None:
    words = "0/5 nodes are available: 5 Insufficient nvidia.com/gpu."
    refused = condition("PodScheduled", "False", "2026-12-01T12:00:05Z", reason="Unschedulable", message=words)
    found = read(status={"conditions": [refused], "containerStatuses": None, "podIP": None}, spec={"nodeName": None})
    assert found.unschedulable == words
    assert found.ip is None
    assert found.node is None
