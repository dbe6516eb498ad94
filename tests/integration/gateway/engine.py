"""An engine stand-in whose every answer a test decides: it holds, streams, or breaks off, and counts what reached it.

Timing and order are the point here, so the simulator with its own pace would only blur them; the whole path with the
simulator is in the scenario tests.
"""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from mtpilot.render.environment import KEEP_ALIVE_SECONDS

PORT = 30000


@dataclass(slots=True, kw_only=True)
class Engine:
    """Listens on `address`:30000. `gate` set: answers at once; else requests wait in it.

    slots: what /v1/loads says; None: 404. received: markers of requests, in order; aborted: those whose client left.
    keep_alive_seconds: how long it keeps a connection without a request. announces: says of every third answer that it closes.
    """

    address: str
    slots: int | None = None
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    announces: bool = False
    connections: set[asyncio.BaseTransport] = field(default_factory=set)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    received: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[tuple[str, ...]] = field(default_factory=list)
    request_ids: list[list[str]] = field(default_factory=list)
    running: int = 0
    most: int = 0
    break_off: bool = False
    events: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/v1/loads", self._loads)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/stream", self._stream)
        app.router.add_route("*", "/{path:.*}", self._any)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1, keepalive_timeout=self.keep_alive_seconds
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, PORT).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def open_connections(self) -> int:
        """Of those that have carried a request."""
        return sum(not connection.is_closing() for connection in self.connections)

    async def _loads(self, _: web.Request) -> web.Response:
        if self.slots is None:
            raise web.HTTPNotFound
        return web.json_response({"loads": [{"dp_rank": 0, "max_running_requests": self.slots}]})

    async def _any(self, request: web.Request) -> web.Response:
        self.paths.append(request.raw_path)
        return web.Response(text="engine")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        marker = request.query.get("marker", "")
        self.received.append(marker)
        assert request.transport is not None
        self.connections.add(request.transport)
        self.headers.append(tuple(request.headers))
        self.request_ids.append(request.headers.getall("x-request-id", []))
        if self.break_off:
            request.transport.abort()
        async with _Running(self, marker):
            await self.gate.wait()
            response = web.json_response({"marker": marker, "by": self.address, "bytes": len(body)})
        if self.announces and len(self.received) % 3 == 0:
            response.force_close()
        return response

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Sends what the test puts into `events`; None ends it."""
        marker = request.query.get("marker", "")
        self.received.append(marker)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with _Running(self, marker):
            await response.prepare(request)
            while (event := await self.events.get()) is not None:
                await response.write(f"data: {event}\n\n".encode())
            await response.write(b"data: [DONE]\n\n")
        return response


@dataclass(slots=True)
class _Running:
    engine: Engine
    marker: str

    async def __aenter__(self) -> None:
        self.engine.running += 1
        self.engine.most = max(self.engine.most, self.engine.running)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.engine.running -= 1
        if kind is asyncio.CancelledError:
            self.engine.aborted.append(self.marker)
