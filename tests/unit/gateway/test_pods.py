"""Which pods may get requests, and how many at a time."""

from typing import Any

import pytest

from mtpilot.gateway.pods import ServerState, count_gateways, engine_pods
from mtpilot.model.names import COMPONENT_GATEWAY, LABEL_COMPONENT
from tests.unit.gateway.pods import pod


@pytest.mark.parametrize(
    ("ready", "serving", "terminating", "state"),
    [
        (True, True, False, ServerState.READY),
        (True, None, False, ServerState.READY),
        (False, True, False, ServerState.MAINT),
        (True, False, False, ServerState.DRAIN),
        (False, False, False, ServerState.DRAIN),
        (True, True, True, ServerState.DRAIN),
        (False, True, True, ServerState.DRAIN),
    ],
)
def test_state(ready: bool, serving: bool | None, terminating: bool, state: ServerState) -> None:
    (found,) = engine_pods([pod(ready=ready, serving=serving, terminating=terminating)])
    assert found.state is state


@pytest.mark.parametrize("missing", [pod(address=None), pod(phase="Succeeded"), pod(phase="Failed")])
def test_pods_without_address_or_ended_are_left_out(missing: dict[str, Any]) -> None:
    assert engine_pods([missing]) == ()


@pytest.mark.parametrize(
    ("args", "slots"),
    [
        (["--max-running-requests", "48"], 48),
        (["--max-running-requests=68", "--tp", "4"], 68),
        (["--max-running-requests", "8", "--max-running-requests", "16"], 16),
        (["--max-running-requests"], None),
        (["--max-running-requests", "many"], None),
        (["--max-running-requests", "0"], None),
        ([], None),
    ],
)
def test_requested_slots(args: list[str], slots: int | None) -> None:
    manifest = pod()
    manifest["spec"]["containers"][1]["args"] = args
    assert engine_pods([manifest])[0].requested_slots == slots


def test_port_comes_from_the_named_container_port() -> None:
    manifest = pod()
    manifest["spec"]["containers"][1]["ports"] = [{"name": "metrics", "containerPort": 1}, {"name": "http", "containerPort": 31000}]
    assert engine_pods([manifest])[0].port == 31000
    del manifest["spec"]["containers"][1]["ports"]
    assert engine_pods([manifest])[0].port == 30000


def test_a_reused_address_belongs_to_the_pod_that_serves() -> None:
    old, new = pod(uid="old", terminating=True), pod(uid="new")
    assert [found.name for found in engine_pods([old, new])] == ["new"]
    assert [found.name for found in engine_pods([new, old])] == ["new"]


def test_a_restarted_engine_is_another_instance() -> None:
    first, second = (engine_pods([pod(restarts=count)])[0] for count in (0, 1))
    assert first.name == second.name
    assert first.instance != second.instance


def gateway(**what: Any) -> dict[str, Any]:
    made = pod(**what)
    made["metadata"]["labels"][LABEL_COMPONENT] = COMPONENT_GATEWAY
    return made


def test_gateways_are_no_engines_and_count_while_they_take_requests() -> None:
    pods = [pod(), gateway(), gateway(address="127.0.1.2"), gateway(ready=False), gateway(terminating=True)]
    assert len(engine_pods(pods)) == 1
    assert count_gateways(pods) == 2


def test_a_gateway_that_is_not_ready_yet_counts_itself() -> None:
    assert count_gateways([pod(), gateway(ready=False)]) == 1
