"""The pod watch against a server that speaks the watch protocol and fails in every way that an API server can."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from mtpilot.adapters.kube import pod_watch
from mtpilot.adapters.kube.pod_watch import PodWatch

Pod = dict[str, Any]


def pod(name: str, version: int) -> Pod:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def event(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@dataclass
class ApiServer:
    """`lists`: what each list answers, the last one again and again; `sends`: what is written into the open watch, None ends it."""

    lists: list[tuple[int, list[Pod]]] = field(default_factory=list)
    sends: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    listed: int = 0
    watched_from: list[str] = field(default_factory=list)
    selectors: set[str] = field(default_factory=set)
    fail_with: int | None = None
    port: int = 0
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/team/pods", self._pods)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        self.selectors.add(request.query["labelSelector"])
        if self.fail_with is not None:
            return web.json_response({"kind": "Status", "message": "no"}, status=self.fail_with)
        if request.query.get("watch") == "True" or request.query.get("watch") == "true":
            return await self._watch(request)
        version, items = self.lists[min(self.listed, len(self.lists) - 1)]
        self.listed += 1
        return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.watched_from.append(request.query["resourceVersion"])
        assert request.query["allowWatchBookmarks"].lower() == "true"
        response = web.StreamResponse()
        await response.prepare(request)
        while (data := await self.sends.get()) is not None:
            if data == b"ABORT":
                assert request.transport is not None
                request.transport.abort()
                return response
            await response.write(data)
        return response


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer(lists=[(10, [pod("a", 5)])])
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def snapshots(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncIterator[set[str]]]:
    """The stream, as sets of names."""
    monkeypatch.setattr(pod_watch, "_WATCH_MARGIN_SECONDS", 0.2)
    monkeypatch.setattr(pod_watch, "_BACK_OFF_SECONDS", (0.05, 0.1))
    api = ApiClient(Configuration(host=f"http://127.0.0.1:{server.port}"))

    async def names(watch: PodWatch) -> AsyncIterator[set[str]]:
        async for pods in watch.snapshots():
            yield {pod["metadata"]["name"] for pod in pods}

    async with PodWatch(api, namespace="team", label_selector="app=x", watch_seconds=1) as watch:
        stream = names(watch)
        yield stream
        await stream.aclose()  # type: ignore[attr-defined]


async def following(stream: AsyncIterator[set[str]], seconds: float = 5.0) -> set[str]:
    async with asyncio.timeout(seconds):
        return await anext(stream)


async def test_list_then_changes(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    assert await following(snapshots) == {"a"}
    server.sends.put_nowait(event("ADDED", pod("b", 11)))
    assert await following(snapshots) == {"a", "b"}
    server.sends.put_nowait(event("DELETED", pod("a", 12)) + event("ADDED", pod("c", 13)))
    assert await following(snapshots) == {"b", "c"}
    assert server.selectors == {"app=x"}
    assert server.watched_from == ["10"]


async def test_an_event_in_pieces(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    await following(snapshots)
    whole = event("ADDED", pod("b", 11))
    for piece in (whole[:7], whole[7:]):
        server.sends.put_nowait(piece)
    assert await following(snapshots) == {"a", "b"}


async def test_a_watch_that_ends_goes_on_where_it_was(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    await following(snapshots)
    server.sends.put_nowait(event("BOOKMARK", {"metadata": {"resourceVersion": "40"}}))
    server.sends.put_nowait(None)
    server.sends.put_nowait(event("ADDED", pod("b", 41)))
    assert await following(snapshots) == {"a", "b"}
    assert server.listed == 1
    assert server.watched_from == ["10", "40"]


async def test_too_old_is_listed_again(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    server.lists.append((90, [pod("z", 88)]))
    await following(snapshots)
    server.sends.put_nowait(event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"}))
    assert await following(snapshots) == {"z"}
    await asyncio.sleep(0.1)


async def test_a_broken_connection_is_listed_again(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    server.lists.append((20, [pod("a", 5), pod("b", 19)]))
    await following(snapshots)
    server.sends.put_nowait(b'{"type": "ADDED", "obj')
    server.sends.put_nowait(b"ABORT")
    assert await following(snapshots) == {"a", "b"}


async def test_a_connection_that_stalls_is_noticed(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    """The server neither sends nor ends the watch that it was asked to end after a second."""
    server.lists.append((20, [pod("b", 19)]))
    await following(snapshots)
    assert await following(snapshots) == {"b"}


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_refusals_say_nothing_and_are_tried_again(server: ApiServer, snapshots: AsyncIterator[set[str]], status: int) -> None:
    server.fail_with = status
    waiting = asyncio.ensure_future(following(snapshots))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    server.fail_with = None
    assert await waiting == {"a"}


async def test_a_server_that_is_away_changes_nothing(server: ApiServer, snapshots: AsyncIterator[set[str]]) -> None:
    await following(snapshots)
    waiting = asyncio.ensure_future(following(snapshots, 10))
    await server.stop()
    await asyncio.sleep(0.3)
    assert not waiting.done(), "an absent API server must not look like absent pods"
    server.lists.append((30, [pod("a", 5), pod("new", 29)]))
    await server.start()
    assert await waiting == {"a", "new"}
