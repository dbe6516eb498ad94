"""Which pods may get requests, and how many at a time."""

from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.gateway.pods import ServerState, engine_pods, gateway_share
from mtpilot.gateway.shares import Share
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
    assert gateway_share(pods).gateways == 2


def test_a_gateway_that_is_not_ready_yet_counts_itself() -> None:
    assert gateway_share([pod(), gateway(ready=False)]) == Share()


def test_every_gateway_has_a_rank_of_its_own() -> None:
    addresses = [f"127.0.1.{i}" for i in range(1, 5)]
    pods = [gateway(uid=f"g{i}", address=address) for i, address in enumerate(addresses)]
    assert [gateway_share(pods, address).rank for address in addresses] == [0, 1, 2, 3]
    assert [gateway_share(reversed(pods), address).rank for address in addresses] == [0, 1, 2, 3]


@pytest.mark.parametrize(("label", "mode"), [("mtp", Mode.MTP), ("batch", Mode.BATCH), (None, None), ("other", None)])
def test_mode(label: str | None, mode: Mode | None) -> None:
    assert engine_pods([pod(mode=label)])[0].mode is mode
