"""A small server on loopback that answers like the simulator, or wrongly in one chosen way."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

_MARKER = re.compile(rb"\[\[marker=[^\]]+\]\]")
_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')


def event(text: str = "", finish: str | None = None, number: str = "a", usage: int | None = None) -> str:
    """One server-sent event of a chat stream."""
    document: dict[str, object] = {"id": number, "choices": [{"delta": {"content": text}, "finish_reason": finish}]}
    if usage is not None:
        document = {"id": number, "choices": [], "usage": {"completion_tokens": usage}}
    return f"data: {json.dumps(document)}\n\n"


def chunked(parts: list[str], *, close: bool = True) -> bytes:
    """A 200 response with each part as one HTTP chunk."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Mtpilot-Replica: chat-r0\r\n\r\n"
    body = b"".join(f"{len(part.encode()):x}\r\n{part}\r\n".encode() for part in parts)
    return head + body + (b"0\r\n\r\n" if close else b"")


def whole_answer(marker: str, tokens: int) -> list[str]:
    """The events of a right answer: the marker, filler words, the end."""
    words = [marker] + ["word"] * (tokens - 1)
    half = len(words) // 2
    return [
        event(""),
        event(" ".join(words[:half]) + " "),
        event(" ".join(words[half:])),
        event("", finish="length"),
        event(usage=tokens),
        "data: [DONE]\n\n",
    ]


@dataclass
class Server:
    """`answer(marker, tokens)` gives the bytes of a response; `requests` counts what came."""

    answer: Callable[[str, int], bytes]
    url: str = ""
    delay_seconds: float = 0.0
    requests: int = 0
    markers: list[str] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head).group(1))  # type: ignore[union-attr]
        body = await reader.readexactly(length)
        self.requests += 1
        marker = _MARKER.search(body).group().decode()  # type: ignore[union-attr]
        self.markers.append(marker)
        await asyncio.sleep(self.delay_seconds)
        writer.write(self.answer(marker, int(_TOKENS.search(body).group(1))))  # type: ignore[union-attr]
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def serving(answer: Callable[[str, int], bytes], delay_seconds: float = 0.0) -> AsyncIterator[Server]:
    server = Server(answer=answer, delay_seconds=delay_seconds)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener:
        yield server


@pytest.fixture
def right() -> Callable[[str, int], bytes]:
    return lambda marker, tokens: chunked(whole_answer(marker, tokens))
