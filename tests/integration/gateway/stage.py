"""HAProxy, the agent and engines on one stage; the test plays the API server by saying which pods there are."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import aiohttp
from yarl import URL

from mtpilot.gateway.agent import Agent
from mtpilot.gateway.certificate import FileCertificates
from mtpilot.gateway.desired import ActualServer
from mtpilot.gateway.keys import FileApiKeys
from mtpilot.gateway.loads import HttpEngineSlots
from mtpilot.gateway.pods import ServerState
from mtpilot.model.snapshot import Manifest
from mtpilot.render.haproxy import NOTHING_WAITS_FILE
from tests.integration.gateway.engine import Engine
from tests.integration.gateway.haproxy import HAProxy


@dataclass(slots=True)
class SaidPods:
    """A PodWatch that yields what it is told, and nothing before that: an API server that does not answer."""

    queue: asyncio.Queue[tuple[Manifest, ...]] = field(default_factory=asyncio.Queue)

    async def snapshots(self) -> AsyncIterator[tuple[Manifest, ...]]:
        while True:
            yield await self.queue.get()


@dataclass(slots=True)
class SaidLimits:
    """The contention limit that a test publishes."""

    limit: int | None = None

    def contention_limit(self) -> int | None:
        return self.limit


@dataclass(slots=True)
class Steady:
    """What clients that never rest were answered so far: the status, and whether the answer has the request's own marker."""

    answers: list[tuple[int, bool]] = field(default_factory=list)

    async def more(self, count: int, seconds: float = 5) -> None:
        """Wait for so many more answers."""
        goal = len(self.answers) + count
        await until(lambda: len(self.answers) >= goal, seconds)

    def assert_each_answered_once(self, *engines: Engine) -> None:
        """After the clients have ended: nothing lost, nothing failed, nothing seen twice by the engines together."""
        assert set(self.answers) == {(200, True)}
        received = [marker for engine in engines for marker in engine.received if marker]
        assert len(received) == len(set(received)) == len(self.answers)


@dataclass(slots=True, kw_only=True)
class Answer:
    status: int
    body: Any
    headers: Any


@dataclass(slots=True, kw_only=True)
class Stage:
    """One gateway. `say` names the pods that there are now."""

    haproxy: HAProxy
    session: aiohttp.ClientSession
    limits: SaidLimits = field(default_factory=SaidLimits)
    keys: FileApiKeys | None = None
    certificates: FileCertificates | None = None
    agent: Agent = field(init=False)
    _watch: SaidPods = field(init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def start_agent(self) -> None:
        self._watch = SaidPods()
        self.agent = Agent(
            watch=self._watch,
            gateway=self.haproxy.admin,
            engines=HttpEngineSlots(self.session),
            nothing_waits=self.haproxy.folder / NOTHING_WAITS_FILE,
            limits=self.limits,
            keys=self.keys,
            certificates=self.certificates,
            address=self.haproxy.address,
        )
        self._running = asyncio.create_task(self.agent.run())

    async def stop_agent(self) -> None:
        """As SIGKILL does: nothing is said to HAProxy."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    async def agent_ends(self) -> None:
        assert self._running is not None
        await asyncio.wait_for(asyncio.shield(self._running), 10)

    def say(self, *pods: Manifest) -> None:
        self._watch.queue.put_nowait(pods)

    async def servers(self) -> dict[str, ActualServer]:
        """The servers that are not in maintenance, by address."""
        return {server.address: server for server in (await self.haproxy.admin.pool()).servers if server.state is not ServerState.MAINT}

    async def until_lane(self, **rooms: int) -> None:
        """Wait until exactly these servers of the lane take requests, each so many at a time."""

        async def there() -> bool:
            lane = (await self.haproxy.admin.pool()).lane
            return {server.name: server.maxconn for server in lane if server.state is ServerState.READY} == rooms

        await until(there, 3.0)

    async def until_ready(self, *addresses: str, seconds: float = 2.0) -> None:
        """Wait until exactly these take requests."""

        async def there() -> bool:
            servers = await self.servers()
            return {address for address, server in servers.items() if server.state is ServerState.READY} == set(addresses)

        await until(there, seconds)

    async def post(self, marker: str = "", *, path: str = "/v1/chat/completions", data: bytes | BinaryIO = b"{}", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(f"{self.haproxy.url}{path}", params={"marker": marker}, data=data, headers=named) as response:
            is_json = response.content_type == "application/json"
            return Answer(status=response.status, body=await (response.json() if is_json else response.text()), headers=response.headers)

    @contextlib.asynccontextmanager
    async def clients(self, count: int, *, pause_seconds: Callable[[], float] = lambda: 0.01) -> AsyncIterator[Steady]:
        """So many clients, each with one request after the other; at the end of the block all have their last answer."""
        steady, stop = Steady(), asyncio.Event()

        async def client(name: int) -> None:
            number = 0
            while not stop.is_set():
                marker = f"{name}-{number}"
                answer = await self.post(marker)
                steady.answers.append((answer.status, answer.body.get("marker") == marker))
                number += 1
                await asyncio.sleep(pause_seconds())

        async with asyncio.TaskGroup() as tasks:
            for name in range(count):
                tasks.create_task(client(name))
            yield steady
            stop.set()

    async def get(self, path: str, *, port: int = 8080) -> Answer:
        return await self.get_at(self.haproxy.address, path, port=port)

    async def get_at(self, address: str, path: str, *, port: int = 8406) -> Answer:
        # NB: encoded=True, so that the client does not clean the path up.
        async with self.session.get(URL(f"http://{address}:{port}{path}", encoded=True)) as response:
            return Answer(status=response.status, body=await response.text(), headers=response.headers)


async def until(condition: Any, seconds: float = 2.0) -> None:
    """Wait for a condition, plain or async."""
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if await value if asyncio.iscoroutine(value) else value:
                return
            await asyncio.sleep(0.01)


async def cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
