"""Load of every kind at once, around whatever a scenario does to a service: streams, whole answers, long generations, clients that leave.

A generation of three minutes is three minutes of the engine's own time: the simulator runs `TIME_SCALE` times faster than the
curve that it follows, in all that it does, so that the order of events is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from e2e.load import BackgroundLoad, background_load
from e2e.load.answer import foreign_markers, marker_text
from e2e.load.exchange import PATH
from e2e.load.result import Outcome, Record
from tests.integration.controller.scene import Manifest, Scene, inference_service
from tests.integration.scenarios.support import MODEL, gateway_urls

TIME_SCALE = 40
LONG_ENGINE_SECONDS = 180
_MTP_ALONE_TOKENS_PER_SECOND = 110  # a little above what the simulator's curve gives one request, and far above that beside others
LONG_TOKENS = LONG_ENGINE_SECONDS * _MTP_ALONE_TOKENS_PER_SECOND
SHORT_TOKENS = 300
TIMEOUT_SECONDS = 90
CANNOT_CONNECT = "cannot connect"
_SHORT_CLIENTS, _LONG_CLIENTS = 3, 1
CLIENTS = _SHORT_CLIENTS + _LONG_CLIENTS + 2


def fast_service(*, replicas: int, mtp: int, gateways: int) -> Manifest:
    """A service whose flips take seconds, and whose long generations are three minutes of engine time."""
    made = inference_service(replicas=replicas)
    spec = made["spec"]
    spec["model"]["contextLength"] = 32768
    spec["gateway"] = {"replicas": gateways}
    spec["policy"] |= {"pinned": {"mtp": mtp, "batch": replicas - mtp}, "minDwell": "0s"}
    spec["rollout"]["drainTimeout"] = "20s"
    settings = {item["name"]: item["value"] for item in spec["engine"]["env"]}
    settings |= {"SGLANG_SIM_TIME_SCALE": str(TIME_SCALE), "SGLANG_SIM_LOAD_SECONDS": "0.2", "SGLANG_SIM_MIN_EVENT_SECONDS": "0.1"}
    spec["engine"] = {"env": [{"name": name, "value": value} for name, value in settings.items()]}
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A request that was not answered in full: by which gateway, from when to when (Unix seconds), and why."""

    target: str
    sent_at: float
    ended_at: float
    error: str

    @classmethod
    def of(cls, record: Record) -> Loss:
        return cls(target=record.target, sent_at=record.sent_at, ended_at=record.ended_at, error=f"{record.outcome}: {record.error}")


@dataclass(slots=True, kw_only=True)
class MixedLoad:
    """The load while it runs. losses: complete once the block has ended. ended: whole answers; left: clients that left a stream."""

    urls: Sequence[str]
    short: BackgroundLoad
    long: BackgroundLoad
    ended: int = 0
    left: int = 0
    losses: list[Loss] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def goes_on(self) -> None:
        """Until every kind but the long ones was answered some more."""
        ended, left = self.ended, self.left
        await self.short.wait_completed(6, timeout_seconds=TIMEOUT_SECONDS)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while self.ended < ended + 2 or self.left < left + 2:
                await asyncio.sleep(0.1)

    async def repeat(self, send: Callable[[aiohttp.ClientSession, str, str], Awaitable[str]]) -> None:
        """One request after the other until the end; `send` gives what was wrong, or nothing."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(force_close=True)) as session:
            while not self._stopping.is_set():
                number = next(self._numbers)
                url, sent_at = self.urls[number % len(self.urls)], time.time()
                try:
                    error = await send(session, url, f"own-{number}")
                except aiohttp.ClientConnectorError as failure:
                    error = f"{CANNOT_CONNECT}: {failure}"
                except (aiohttp.ClientError, TimeoutError) as failure:
                    error = repr(failure)
                if error:
                    self.losses.append(Loss(target=url, sent_at=sent_at, ended_at=time.time(), error=error))
                await asyncio.sleep(0.2)

    async def whole(self, session: aiohttp.ClientSession, url: str, marker: str) -> str:
        """An answer without a stream."""
        async with session.post(f"{url}{PATH}", json=_request(marker, stream=False)) as response:
            if response.status != 200:
                return f"HTTP {response.status}: {(await response.text())[:200]}"
            answer = await response.json()
        text, tokens = answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"]
        if marker_text(marker) not in text or foreign_markers(text, marker) or tokens != SHORT_TOKENS:
            return f"{tokens} tokens, {text[:100]!r}"
        self.ended += 1
        return ""

    async def leave(self, session: aiohttp.ClientSession, url: str, marker: str) -> str:
        """A client that goes away in the middle of a long generation."""
        async with session.post(f"{url}{PATH}", json=_request(marker, stream=True) | {"max_tokens": LONG_TOKENS}) as response:
            if response.status != 200:
                return f"HTTP {response.status}: {(await response.text())[:200]}"
            await response.content.readuntil(b"\n\n")
            response.close()
        self.left += 1
        return ""

    def end(self) -> None:
        self._stopping.set()


def _request(marker: str, *, stream: bool) -> dict[str, Any]:
    content = f"{marker_text(marker)} river stone"
    return {
        "model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": SHORT_TOKENS, "ignore_eos": True,
        "temperature": 0, "stream": stream,
    }  # fmt: skip


@contextlib.asynccontextmanager
async def mixed_load(scene: Scene) -> AsyncIterator[MixedLoad]:
    """Keep all kinds of clients busy through all gateways; after the block every request has ended and `losses` is complete."""
    urls = await gateway_urls(scene)
    options: dict[str, Any] = {"model": MODEL, "timeout_seconds": TIMEOUT_SECONDS}
    async with (
        background_load(urls, clients=_SHORT_CLIENTS, output_tokens=SHORT_TOKENS, pause_seconds=0.1, **options) as short,
        background_load(urls, clients=_LONG_CLIENTS, output_tokens=LONG_TOKENS, **options) as long,
    ):
        load = MixedLoad(urls=urls, short=short, long=long)
        async with asyncio.TaskGroup() as tasks:
            for send in (load.whole, load.leave):
                tasks.create_task(load.repeat(send))
            await load.goes_on()
            yield load
            await load.goes_on()
            load.end()
    for result in (short.result, long.result):
        assert result is not None
        load.losses += [Loss.of(record) for record in result.records if record.outcome is not Outcome.COMPLETED]
    assert long.result is not None
    assert max(long.result.latencies_seconds) >= LONG_ENGINE_SECONDS / TIME_SCALE
