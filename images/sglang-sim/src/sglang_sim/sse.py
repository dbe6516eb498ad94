"""Server-sent events written straight into the connection, and the sinks that answers come from.

aiohttp opens and closes the response; the events between go to the transport as ready-made chunks. That leaves one
system call and a few byte joins an event, which is what lets hundreds of streams share one core.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiohttp import web

from sglang_sim.rows import Row
from sglang_sim.scheduler import Scheduler


class Frames(Protocol):
    """How one API words its events."""

    def delta(self, row: Row) -> bytes:
        """The event for tokens `row.sent` to `row.generated`."""

    def last(self, row: Row) -> bytes:
        """The closing events, with what tokens are left."""


class CollectSink:
    """Waits for the whole answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[None] = loop.create_future()

    def emit(self, row: Row) -> None:
        """Nothing is handed on before the end."""

    def end(self, row: Row) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class StreamSink:
    """Turns tokens into events: kept until the response is open, then written to its transport."""

    def __init__(self, frames: Frames, loop: asyncio.AbstractEventLoop) -> None:
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._frames = frames
        self._pending: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._chunked = True

    def emit(self, row: Row) -> None:
        self._send(self._frames.delta(row))

    def end(self, row: Row) -> None:
        self._send(self._frames.last(row))
        if not self.ended.done():
            self.ended.set_result(None)

    def take(self) -> bytes:
        """The events kept so far."""
        data, self._pending = b"".join(self._pending), []
        return data

    def attach(self, transport: asyncio.WriteTransport, *, chunked: bool) -> None:
        """Write to `transport` from now on, in HTTP chunks unless the client is too old for them."""
        self._transport, self._chunked = transport, chunked
        kept = self.take()
        if kept:
            self._send(kept)

    def _send(self, data: bytes) -> None:
        if self._transport is None:
            self._pending.append(data)
            if not self.started.done():
                self.started.set_result(None)
        elif not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)


async def stream(request: web.Request, scheduler: Scheduler, row: Row, sink: StreamSink) -> web.StreamResponse:
    """Submit the row and stream its answer; a client that goes away takes its row out of the engine at once."""
    if not scheduler.submit(row):
        return queue_full()
    try:
        await sink.started
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        chunked = request.version >= (1, 1)
        if chunked:
            response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(sink.take())
        if request.transport is not None:
            sink.attach(request.transport, chunked=chunked)
        await sink.ended
        await response.write_eof()
        return response
    finally:
        scheduler.abort(row)


async def collect(scheduler: Scheduler, row: Row, sink: CollectSink) -> web.Response | None:
    """Submit the row and wait for its end; a response only where the queue is full."""
    if not scheduler.submit(row):
        return queue_full()
    try:
        await sink.ended
    finally:
        scheduler.abort(row)
    return None


def queue_full() -> web.Response:
    """What 0.5.23 answers when --max-queued-requests is reached."""
    return web.json_response(
        {"object": "error", "message": "The request queue is full.", "type": "ServiceUnavailable", "code": 503}, status=503
    )
