"""Leaving a cluster, against an API server of a few lines: who is released, who is waited for, and in which order."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mtpilot.adapters.kube.client import ApiError
from mtpilot.adapters.kube.leaving import Leaving, Outcome, found_from_object
from mtpilot.adapters.kube.paths import Ref
from mtpilot.model.names import FINALIZER
from mtpilot.model.snapshot import Manifest
from mtpilot.ports import ClusterError

OPERATOR = Ref(api_version="apps/v1", kind="Deployment", namespace="mtpilot-system", name="mtpilot")


def service(name: str, *, finalizers: tuple[str, ...] = (FINALIZER,), deleting: bool = False, phase: str = "Serving") -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "1", "finalizers": list(finalizers)}
    if deleting:
        metadata["deletionTimestamp"] = "2026-12-01T12:00:00Z"
    return {"metadata": metadata, "status": {"slots": [{"name": f"{name}-r0", "phase": phase}]}}


class Server:
    """Services by name; the operator drains a deleted one within `drain` looks, while it runs."""

    def __init__(self, *services: Manifest, drain: int = 1, operator: bool = True, stops: bool = True, conflicts: int = 0) -> None:
        self.services = {obj["metadata"]["name"]: obj for obj in services}
        self.drain, self.operator, self.stops, self.conflicts = drain, operator, stops, conflicts
        self.log: list[str] = []

    async def list_all(self, _: str, kind: str, *, namespace: str | None = None, **__: Any) -> list[Manifest]:
        if kind == "Pod":
            return [{"metadata": {"name": "mtpilot-x"}}] if self.operator else []
        self.drain -= 1
        for name in [name for name, obj in self.services.items() if "deletionTimestamp" in obj["metadata"]]:
            finalizers = self.services[name]["metadata"]["finalizers"]
            if self.operator and self.drain < 0 and FINALIZER in finalizers:
                finalizers.remove(FINALIZER)
            if not finalizers:
                del self.services[name]
        return [copy.deepcopy(obj) for obj in self.services.values() if namespace in (None, "team-a")]

    async def get(self, ref: Ref) -> Manifest | None:
        if ref == OPERATOR:
            return {"metadata": {"name": "mtpilot"}, "spec": {"selector": {"matchLabels": {"app": "mtpilot"}}}}
        return copy.deepcopy(self.services.get(ref.name))

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> tuple[int, Manifest]:
        self.log.append(f"{method} {path.rpartition('/')[2]} {body['spec']['replicas']}")
        self.operator = self.operator and not self.stops
        return 200, {}

    async def patch(self, ref: Ref, body: list[dict[str, Any]], **_: Any) -> Manifest:
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError(status=422, reason="Invalid", message="the test of resourceVersion failed")
        self.log.append(f"release {ref.name}" + (" beside the operator" if self.operator else ""))
        self.services[ref.name]["metadata"]["finalizers"] = body[-1]["value"]
        return {}

    async def delete(self, ref: Ref, *, uid: str) -> bool:
        self.log.append(f"delete {ref.name} {uid}")
        self.services[ref.name]["metadata"]["deletionTimestamp"] = "2026-12-01T12:00:00Z"
        return True


async def leave(server: Server, *, stop_serving: bool = False, timeout: float = 5.0, operator: Ref | None = OPERATOR) -> Outcome:
    client: Any = server
    leaving = Leaving(client=client, operator=operator, poll_seconds=0)
    return await leaving.run(stop_serving=stop_serving, timeout_seconds=timeout, say=lambda _: None)


def names(found: tuple[Any, ...]) -> list[str]:
    return [str(service) for service in found]


async def test_what_serves_is_released_once_the_operator_has_ended() -> None:
    server = Server(service("chat"), service("code", finalizers=(FINALIZER, "example.org/backup")))
    outcome = await leave(server)
    assert server.log == ["PATCH scale 0", "release chat", "release code"]
    assert names(outcome.released) == ["team-a/chat", "team-a/code"]
    assert server.services["code"]["metadata"]["finalizers"] == ["example.org/backup"]
    assert "deletionTimestamp" not in server.services["chat"]["metadata"]


async def test_a_service_that_is_being_deleted_is_drained_first() -> None:
    server = Server(service("chat", deleting=True), service("code"), drain=4)
    outcome = await leave(server)
    assert (names(outcome.ended), names(outcome.released), outcome.forced) == (["team-a/chat"], ["team-a/code"], ())
    assert server.log == ["PATCH scale 0", "release code"]


async def test_serving_stops_only_when_asked() -> None:
    server = Server(service("chat"), service("code", deleting=True), drain=3)
    outcome = await leave(server, stop_serving=True)
    assert server.log == ["delete chat uid-chat", "PATCH scale 0"]
    assert names(outcome.ended) == ["team-a/chat", "team-a/code"]
    assert server.services == {}


async def test_a_drain_that_does_not_end_is_not_waited_for_for_ever() -> None:
    server = Server(service("chat", deleting=True), drain=10**9)
    outcome = await leave(server, timeout=0.02)
    assert names(outcome.forced) == ["team-a/chat"]
    assert server.log[-1] == "release chat"


async def test_an_operator_that_does_not_end_keeps_its_finalizers() -> None:
    server = Server(service("chat"), stops=False)
    with pytest.raises(ClusterError, match="no finalizer was taken off"):
        await leave(server, timeout=0.02)
    assert server.services["chat"]["metadata"]["finalizers"] == [FINALIZER]


async def test_without_an_operator_to_end_it_is_taken_at_its_word() -> None:
    server = Server(service("chat"), operator=False)
    await leave(server, operator=None)
    assert server.log == ["release chat"]


async def test_a_write_in_between_is_looked_at_again_and_not_for_ever() -> None:
    server = Server(service("chat"), conflicts=2)
    await leave(server)
    assert server.log == ["PATCH scale 0", "release chat"]
    with pytest.raises(ClusterError, match="changes too often"):
        await leave(Server(service("chat"), conflicts=99))


async def test_a_second_time_there_is_nothing_to_do() -> None:
    server = Server(service("chat"))
    await leave(server)
    outcome = await leave(server)
    assert server.log.count("release chat") == 1
    assert names(outcome.released) == ["team-a/chat"]


async def test_without_the_crd_there_is_nothing_to_clean_up() -> None:
    class Bare(Server):
        async def list_all(self, _: str, kind: str, *, namespace: str | None = None, **__: Any) -> list[Manifest]:
            if kind == "Pod":
                return await super().list_all(_, kind, namespace=namespace)
            raise ApiError(status=404, reason="NotFound", message="")

    assert await leave(Bare()) == Outcome()


def test_slots_on_their_way_are_told() -> None:
    assert found_from_object(service("chat", phase="Draining")).moving == ("chat-r0 (Draining)",)
    assert found_from_object({"metadata": {"name": "n", "namespace": "s", "uid": "u"}}).moving == ()
