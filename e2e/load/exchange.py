"""One HTTP/1.1 exchange on a connection of its own, as cheap as asyncio allows.

The bytes are only gathered here, and the instant of the first piece of text noted: parsing waits until the end, so that
an open stream costs one small callback for each packet.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from e2e.load.answer import END_OF_CHUNKS, FIRST_TOKEN, marker_text

_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
_FILLER = "river stone cloud field amber night " * 4000
_WORD = 6
PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A gateway or engine to send to."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def parse_target(url: str) -> Target:
    """`http://127.x.y.z:PORT`; ValueError for anything else: load goes nowhere but to loopback addresses."""
    parts = urlsplit(url)
    try:
        address = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        raise ValueError(f"{url}: an IP address in 127.0.0.0/8 is needed") from None
    if parts.scheme != "http" or parts.port is None or address not in _LOOPBACK:
        raise ValueError(f"{url}: load goes only to http://127.x.y.z:PORT")
    return Target(host=str(address), port=parts.port)


def request_bytes(target: Target, *, model: str, marker: str, input_tokens: int, output_tokens: int) -> bytes:
    """A streaming chat request of `input_tokens` words, the first of which is the marker."""
    filler = _FILLER[: max(0, min(input_tokens, 20_000) - 1) * _WORD].rstrip()
    body = (
        f'{{"model":"{model}","messages":[{{"role":"user","content":"{marker_text(marker)} {filler}"}}],"max_tokens":{output_tokens},'
        '"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}'
    ).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {target.host}:{target.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@dataclass(slots=True)
class Exchanged:
    """Bytes of the response as they came, Unix time of the first text, and why it ended early, if it did."""

    raw: bytearray
    first_token_at: float | None = None
    error: str = ""


class _Receiver(asyncio.Protocol):
    def __init__(self, payload: bytes, ended: asyncio.Future[None]) -> None:
        self.result = Exchanged(raw=bytearray())
        self._payload = payload
        self._ended = ended
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_connection makes
        self._transport = transport
        transport.write(self._payload)

    def data_received(self, data: bytes) -> None:
        result = self.result
        result.raw += data
        if result.first_token_at is None and FIRST_TOKEN.search(result.raw):
            result.first_token_at = time.time()
        if result.raw.endswith(END_OF_CHUNKS) and self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.result.error = f"connection lost: {exc}"
        if not self._ended.done():
            self._ended.set_result(None)


async def exchange(target: Target, payload: bytes, *, timeout_seconds: float) -> Exchanged:
    """Send `payload` and gather the response to its end, or to the time-out; errors are returned, not raised."""
    loop = asyncio.get_running_loop()
    receiver = _Receiver(payload, loop.create_future())
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(timeout_seconds):
            transport, _ = await loop.create_connection(lambda: receiver, target.host, target.port)
            await receiver._ended
    except TimeoutError:
        receiver.result.error = f"no whole answer within {timeout_seconds:.0f} s"
    except OSError as error:
        receiver.result.error = f"cannot connect: {error}"
    finally:
        if transport is not None:
            transport.abort()
    return receiver.result
