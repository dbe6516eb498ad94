"""Asking an engine: what it is, how loaded it is, what it has counted.

Everything here but the description may be missing: behind a gateway, or without --enable-metrics. Then it is None, never zero.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from mtpilot.adapters.sglang import parse_loads

from .acceptance import Counters, parse_counters
from .recording import Look

_ASK_SECONDS = 10.0
_SETTLE_SECONDS, _SETTLE_POLL_SECONDS = 2.0, 0.05


class BenchError(RuntimeError):
    """The run cannot go on; the message says why, and what would change it."""


class EngineClient:
    """One server's admin paths. `headers` carry its key, where it has one."""

    def __init__(self, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> None:
        self._session, self._url, self._headers = session, url, headers

    async def server_info(self) -> dict[str, Any] | None:
        """What the engine says of itself; None where this is no engine.

        Raises:
            BenchError: nothing answers at this address.
        """
        try:
            found = await self._json("/server_info") or await self._json("/get_server_info")
        except aiohttp.ClientConnectionError as error:
            raise BenchError(f"{self._url} does not answer: {error}") from error
        return found if isinstance(found, dict) else None

    async def model(self) -> str:
        """The name of the first served model.

        Raises:
            BenchError: none is told.
        """
        try:
            found = await self._json("/v1/models")
            return str((found or {})["data"][0]["id"])
        except (aiohttp.ClientError, KeyError, IndexError, TypeError) as error:
            raise BenchError(f"{self._url}/v1/models names no model: give --model") from error

    async def look(self) -> Look | None:
        """The load now."""
        try:
            load = parse_loads(await self._json("/v1/loads"))
        except (aiohttp.ClientError, OSError):
            return None
        return None if load is None else Look(running=load.running, waiting=load.waiting)

    async def slots(self) -> int | None:
        """Effective limit of running requests, from the load."""
        try:
            load = parse_loads(await self._json("/v1/loads"))
        except (aiohttp.ClientError, OSError):
            return None
        return None if load is None else load.effective_max_running_requests

    async def counters(self) -> Counters | None:
        """None where there is no page of metrics, or none of SGLang's."""
        try:
            async with self._session.get(f"{self._url}/metrics", headers=self._headers, timeout=_ask_timeout()) as answer:
                found = parse_counters(await answer.text()) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, UnicodeDecodeError):
            return None
        return found if found is not None and found.generated_tokens is not None else None

    async def settled_counters(self, before: Counters, requests: int) -> Counters | None:
        """The counters once they hold `requests` more, or as they stand after two seconds: an engine counts a little after it answers."""
        until = asyncio.get_running_loop().time() + _SETTLE_SECONDS
        while True:
            found = await self.counters()
            if found is None or before.requests is None or found.requests is None or found.requests - before.requests >= requests:
                return found
            if asyncio.get_running_loop().time() >= until:
                return found
            await asyncio.sleep(_SETTLE_POLL_SECONDS)

    async def flush(self) -> bool:
        """Empty the prefix cache, which also begins a new lifetime average; False where the engine refuses."""
        try:
            async with self._session.post(f"{self._url}/flush_cache", headers=self._headers, timeout=_ask_timeout()) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _json(self, path: str) -> Any:
        """None for another status than 200, no JSON, or no answer in time."""
        try:
            async with self._session.get(self._url + path, headers=self._headers, timeout=_ask_timeout()) as answer:
                return await answer.json(content_type=None) if answer.status == 200 else None
        except (TimeoutError, ValueError):
            return None


def _ask_timeout() -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=_ASK_SECONDS)
