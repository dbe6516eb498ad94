"""A pod's phase and conditions follow from its containers' records as a kubelet's do."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.clusters.local.node.records import ContainerRecord, Running, State, Terminated, Waiting
from e2e.clusters.local.node.status import Observed, pod_phase, pod_status

NEW = Waiting(reason="ContainerCreating")
CRASHED = Waiting(reason="CrashLoopBackOff")
UP = Running(started_at="2026-01-01T00:00:00Z")
NOW = "2026-01-01T00:01:00Z"


def ended(code: int) -> Terminated:
    return Terminated(exit_code=code, reason="Error" if code else "Completed", started_at=NOW, finished_at=NOW)


def record(state: State, **fields: Any) -> ContainerRecord:
    return ContainerRecord(name="main", image="image", state=state, **fields)


@pytest.mark.parametrize(
    ("policy", "init", "main", "phase"),
    [
        ("Always", [], [record(NEW)], "Pending"),
        ("Always", [], [record(UP)], "Running"),
        ("Always", [], [record(UP), record(NEW)], "Pending"),
        ("Always", [], [record(CRASHED, last=ended(1))], "Running"),
        ("Always", [], [record(ended(0))], "Running"),
        ("Never", [], [record(ended(0))], "Succeeded"),
        ("Never", [], [record(ended(0)), record(ended(2))], "Failed"),
        ("Never", [], [record(ended(2)), record(UP)], "Running"),
        ("OnFailure", [], [record(ended(0))], "Succeeded"),
        ("OnFailure", [], [record(CRASHED, last=ended(1))], "Running"),
        ("Always", [record(UP)], [record(NEW)], "Pending"),
        ("Always", [record(ended(0))], [record(UP)], "Running"),
        ("Never", [record(ended(1))], [record(NEW)], "Failed"),
        ("Always", [record(UP, restartable=True, started=True)], [record(UP)], "Running"),
        ("Always", [record(UP, restartable=True)], [record(UP)], "Pending"),
    ],
)
def test_phase(policy: str, init: list[ContainerRecord], main: list[ContainerRecord], phase: str) -> None:
    assert pod_phase(policy, init, main) == phase


def status(pod: dict[str, Any], *main: ContainerRecord, now: str = NOW) -> dict[str, Any]:
    observed = Observed(init=[], main=main, pod_ip="127.1.0.2", host_ip="127.0.0.1", start_time=NOW, now=now)
    return pod_status(pod, observed)


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in found["conditions"]}


def test_unready_container_is_named_in_the_condition() -> None:
    found = status({"spec": {}}, record(UP))
    ready = next(condition for condition in found["conditions"] if condition["type"] == "Ready")
    assert ready["status"] == "False"
    assert ready["message"] == "containers with unready status: [main]"
    assert conditions(found)["Initialized"] == "True"


def test_transition_time_moves_only_with_the_status() -> None:
    first = status({"spec": {}}, record(UP))
    later = "2026-01-01T00:02:00Z"
    second = status({"spec": {}, "status": first}, record(UP, ready=True), now=later)
    times = {condition["type"]: condition["lastTransitionTime"] for condition in second["conditions"]}
    assert times["Ready"] == times["ContainersReady"] == later
    assert times["Initialized"] == times["PodScheduled"] == NOW


def test_readiness_gate_holds_back_ready_alone() -> None:
    pod: dict[str, Any] = {"spec": {"readinessGates": [{"conditionType": "example.org/gate"}]}}
    assert conditions(status(pod, record(UP, ready=True)))["ContainersReady"] == "True"
    assert conditions(status(pod, record(UP, ready=True)))["Ready"] == "False"
    pod["status"] = {"conditions": [{"type": "example.org/gate", "status": "True"}]}
    assert conditions(status(pod, record(UP, ready=True)))["Ready"] == "True"


def test_last_state_is_the_end_before_the_present_state() -> None:
    end = ended(3)
    assert record(CRASHED, last=end).status()["lastState"]["terminated"]["exitCode"] == 3
    assert record(end, last=end).status()["lastState"] == {}
