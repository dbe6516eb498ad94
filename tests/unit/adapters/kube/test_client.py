"""The client against a server that fails on purpose: what is retried, what is not, and that nothing waits for ever."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from mtpilot.adapters.kube.client import ApiError, KubeClient
from mtpilot.adapters.kube.paths import Ref
from mtpilot.ports import ClusterError

POD = Ref(api_version="v1", kind="Pod", name="p", namespace="n")


@dataclass
class Script:
    """Answers to give, one per request; the last is repeated. Requests are kept."""

    answers: list[tuple[int, Any, dict[str, str]]]
    seen: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.seen.append((request.method, request.path_qs, dict(request.headers), json.loads(text) if text else None))
        status, body, headers = self.answers[min(len(self.seen), len(self.answers)) - 1]
        return web.json_response(body, status=status, headers=headers)


def refusal(status: int, reason: str = "", message: str = "", **headers: str) -> tuple[int, Any, dict[str, str]]:
    return status, {"kind": "Status", "reason": reason, "message": message}, headers


def ok(body: Any = None) -> tuple[int, Any, dict[str, str]]:
    return 200, body or {"metadata": {"name": "p"}}, {}


Serve = Callable[..., AbstractAsyncContextManager[tuple[KubeClient, Script]]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("mtpilot.adapters.kube.client.asyncio.sleep", no_wait)

    @asynccontextmanager
    async def serving(*answers: tuple[int, Any, dict[str, str]]) -> AsyncIterator[tuple[KubeClient, Script]]:
        script = Script(list(answers))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", script.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
        configuration.api_key["BearerToken"] = "Bearer secret"
        try:
            async with KubeClient(ApiClient(configuration), request_seconds=2.0) as client:
                yield client, script
        finally:
            await runner.cleanup()

    return serving


async def test_get_gives_the_object_or_none(serve: Serve) -> None:
    async with serve(ok(), refusal(404, "NotFound")) as (client, script):
        assert await client.get(POD) == {"metadata": {"name": "p"}, "apiVersion": "v1", "kind": "Pod"}
        assert await client.get(POD, metadata_only=True) is None
    method, path, headers, _ = script.seen[0]
    assert (method, path, headers["Authorization"]) == ("GET", "/api/v1/namespaces/n/pods/p", "Bearer secret")
    assert "PartialObjectMetadata" in script.seen[1][2]["Accept"]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_reads_are_retried(serve: Serve, status: int) -> None:
    async with serve(refusal(status), ok()) as (client, script):
        assert await client.get(POD) is not None
    assert len(script.seen) == 2


async def test_retries_end(serve: Serve) -> None:
    async with serve(refusal(503, "ServiceUnavailable", "etcd is away", **{"Retry-After": "1"})) as (client, script):
        with pytest.raises(ApiError, match="etcd is away") as error:
            await client.get(POD)
    assert error.value.status == 503
    assert 1 < len(script.seen) <= 4


@pytest.mark.parametrize(("status", "requests"), [(429, 2), (503, 2), (500, 1), (504, 1)])
async def test_a_post_is_repeated_only_when_it_was_turned_away(serve: Serve, status: int, requests: int) -> None:
    manifest = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"}}
    async with serve(refusal(status), ok()) as (client, script):
        if requests == 1:
            with pytest.raises(ApiError):
                await client.create(manifest, field_manager="m")
        else:
            await client.create(manifest, field_manager="m")
    assert len(script.seen) == requests


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
async def test_refusals_are_not_repeated(serve: Serve, status: int) -> None:
    async with serve(refusal(status, "Forbidden", "no")) as (client, script):
        with pytest.raises(ApiError) as error:
            await client.get(POD)
    assert (error.value.status, error.value.reason, str(error.value)) == (status, "Forbidden", "no")
    assert len(script.seen) == 1


async def test_a_refusal_that_is_no_status_object_is_still_told(serve: Serve) -> None:
    async with serve((403, ["proxy says no"], {})) as (client, _):
        with pytest.raises(ApiError, match="proxy says no"):
            await client.get(POD)


async def test_apply_is_an_apply_patch_that_says_whether_it_created(serve: Serve) -> None:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n", "uid": "u"}}
    async with serve((201, {}, {}), ok()) as (client, script):
        assert (await client.apply(manifest, field_manager="mtpilot"))[0]
        assert not (await client.apply(manifest, field_manager="mtpilot", subresource="status"))[0]
    method, path, headers, body = script.seen[0]
    assert (method, path) == ("PATCH", "/apis/apps/v1/namespaces/n/deployments/d?fieldManager=mtpilot&force=true")
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert body == manifest
    assert script.seen[1][1].startswith("/apis/apps/v1/namespaces/n/deployments/d/status?")


async def test_lists_are_read_page_by_page(serve: Serve) -> None:
    first = {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    async with serve(ok(first), ok({"metadata": {}, "items": [{"metadata": {"name": "b"}}]})) as (client, script):
        found = await client.list_all("v1", "Pod", namespace="n", label_selector="app=x,tier in (a)")
    assert [(item["metadata"]["name"], item["kind"]) for item in found] == [("a", "Pod"), ("b", "Pod")]
    assert "labelSelector=app%3Dx,tier%20in%20(a)&" in script.seen[0][1]
    assert "continue=more" in script.seen[1][1]


async def test_deletion_names_the_uid_and_takes_absence_for_done(serve: Serve) -> None:
    async with serve(ok(), refusal(404), refusal(409, "Conflict")) as (client, script):
        assert await client.delete(POD, uid="u1")
        assert not await client.delete(POD, uid="u1")
        assert not await client.delete(POD, uid="u1")
    assert script.seen[0][3]["preconditions"] == {"uid": "u1"}
    assert script.seen[0][3]["propagationPolicy"] == "Background"


async def test_a_server_that_is_away_is_a_cluster_error() -> None:
    async with KubeClient(ApiClient(Configuration(host="http://127.0.0.1:9")), request_seconds=0.3) as client:
        with pytest.raises(ClusterError, match="no answer"):
            await client.get(POD)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ClusterError, match="not a kind that mtpilot handles"):
        Ref(api_version="v1", kind="PersistentVolume", name="x").path.encode()
