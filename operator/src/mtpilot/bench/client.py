"""One request on the wire: bytes are gathered and timed here, and parsed when the batch is over."""

import time
from collections.abc import Callable, Mapping

import aiohttp

from .recording import Exchanged

Clock = Callable[[], float]
_CONNECT_SECONDS = 10.0
# Engines close an idle connection after 5 s (uvicorn), so one that has been idle for long is not used again: a request
# on a connection that is just being closed would count as the engine's failure.
_KEEP_SECONDS = 1.0
_BUFFER_BYTES = 2**18
# What mtpilot's gateway says of an answer.
_SERVED_BY = ("x-mtpilot-mode", "x-mtpilot-replica")


def run_clock(seconds: float = 0.0) -> Clock:
    """Seconds since now, by a clock that is never set; it begins at `seconds`."""
    began = time.perf_counter() - seconds
    return lambda: time.perf_counter() - began


def open_session() -> aiohttp.ClientSession:
    """As many connections as there are requests. No proxy from the environment: it would be measured too."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_SECONDS)
    return aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=False, read_bufsize=_BUFFER_BYTES)


async def exchange(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    clock: Clock,
    due_seconds: float,
    timeout_seconds: float,
) -> Exchanged:
    """Send, and gather the answer to its end or to the time-out; errors are returned, not raised."""
    raw, reads, status, served_by, error = bytearray(), [], 0, "", ""
    sent = clock()
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        async with session.post(url, data=body, headers=headers, timeout=timeout) as answer:
            status = answer.status
            served_by = "/".join(value for name in _SERVED_BY if (value := answer.headers.get(name)))
            async for part in answer.content.iter_any():
                raw += part
                reads.append((clock(), len(raw)))
    except TimeoutError:
        error = f"no whole answer within {timeout_seconds:.0f} s"
    except (aiohttp.ClientError, OSError) as problem:
        error = f"{type(problem).__name__}: {problem}"[:300]
    return Exchanged(
        due_seconds=due_seconds,
        sent_seconds=sent,
        ended_seconds=clock(),
        status=status,
        raw=bytes(raw),
        reads=tuple(reads),
        served_by=served_by,
        error=error,
    )
