"""`ports.Engine`: the load of each engine, asked directly.

Prometheus is too old for a drain, which ends at the moment when nothing is in flight. An engine that does not answer in time
is left out of the result: that means unknown, and never idle.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp

from mtpilot.model.names import ENGINE_PORT
from mtpilot.model.slots import EngineLoad, Pod

TIMEOUT_SECONDS = 2.0
_IN_PARALLEL = 32


class SglangEngines:
    """Open it as an async context manager, or `close()` it."""

    def __init__(self, *, port: int = ENGINE_PORT, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._port = port
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(_IN_PARALLEL)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def loads(self, pods: Sequence[Pod]) -> Mapping[str, EngineLoad]:
        """Pod uid → load, summed over data-parallel ranks. A pod without an address is not asked."""
        if self._session is None:
            # NB: no proxy and no environment: pod addresses are never outside the cluster.
            self._session = aiohttp.ClientSession(timeout=self._timeout, trust_env=False)
        asked = [pod for pod in pods if pod.ip and not pod.finished]
        answers = await asyncio.gather(*(self._load(self._session, pod.ip or "") for pod in asked))
        return {pod.uid: load for pod, load in zip(asked, answers, strict=True) if load is not None}

    async def _load(self, session: aiohttp.ClientSession, ip: str) -> EngineLoad | None:
        host = f"[{ip}]" if ":" in ip else ip
        try:
            async with self._slots, session.get(f"http://{host}:{self._port}/v1/loads") as answer:
                if answer.status != 200:
                    return None
                return parse_loads(await answer.json())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None


def parse_loads(document: Any) -> EngineLoad | None:
    """The answer of `/v1/loads` (SGLang 0.5.23); None where it is something else."""
    try:
        ranks = document["loads"]
        slots = [rank.get("max_running_requests") for rank in ranks]
        return EngineLoad(
            running=sum(int(rank["num_running_reqs"]) for rank in ranks),
            waiting=sum(int(rank["num_waiting_reqs"]) for rank in ranks),
            effective_max_running_requests=sum(slots) if slots and all(isinstance(slot, int) for slot in slots) else None,
        )
    except (KeyError, TypeError, ValueError):
        return None
