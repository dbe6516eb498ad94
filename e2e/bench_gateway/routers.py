"""`sglang-router` and `smg`: started with worker URLs, changed through their worker API, as their documentation has it.

Both take a worker out by `DELETE /workers/{id}`: sglang-router forgets it at once and finishes what is open, smg marks it draining
for 5 s first. Both take it in by `POST /workers` and ask its health before they use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from e2e.bench_gateway.contenders import GATEWAY_PORT, READY_SECONDS, OneProcess, launch
from e2e.bench_gateway.fleet import Replica, poll

_METRICS_PORT = 29000


def sglang_router(environment: Path) -> tuple[str | Path, ...]:
    """The start of its command line."""
    return (environment / "python", "-m", "sglang_router.launch_router")


def smg(environment: Path) -> tuple[str | Path, ...]:
    """The same; without looking for a tokenizer, which only its gRPC workers need."""
    return (environment / "smg", "launch", "--disable-tokenizer-autoload")


@dataclass(slots=True, kw_only=True)
class Router(OneProcess):
    """command: its start, from the functions above. policy: one of its own names. All else stands at its defaults."""

    command: tuple[str | Path, ...]
    policy: str
    removal: str = "`DELETE /workers/{id}`, later `POST /workers`"

    async def start(self, replicas: Sequence[Replica]) -> None:
        place = self.place
        place.folder.mkdir(parents=True, exist_ok=True)
        options = (
            "--host", place.address, "--port", str(GATEWAY_PORT), "--prometheus-host", place.address, "--prometheus-port",
            str(_METRICS_PORT), "--log-level", "error", "--policy", self.policy, "--worker-urls", *(replica.url for replica in replicas),
        )  # fmt: skip
        self._process = launch([*self.command, *options], place, self.policy)
        await self._until_healthy({replica.url for replica in replicas})

    async def remove(self, replica: Replica) -> None:
        workers = await self._workers()
        for worker in workers:
            if worker["url"] == replica.url:
                async with self.place.session.delete(f"{self.place.url}/workers/{worker['id']}") as response:
                    response.raise_for_status()

        async def gone() -> bool:
            return replica.url not in {worker["url"] for worker in await self._workers()}

        await poll(gone, READY_SECONDS, f"{self.policy} to forget {replica.url}")

    async def add(self, replica: Replica) -> None:
        before = {worker["url"] for worker in await self._workers()}
        async with self.place.session.post(f"{self.place.url}/workers", json={"url": replica.url}) as response:
            response.raise_for_status()
        await self._until_healthy(before | {replica.url})

    async def _workers(self) -> list[dict[str, str]]:
        async with self.place.session.get(f"{self.place.url}/workers") as response:
            workers: list[dict[str, str]] = (await response.json())["workers"]
        return workers

    async def _until_healthy(self, urls: set[str]) -> None:
        async def healthy() -> bool:
            try:
                return {worker["url"] for worker in await self._workers() if worker.get("is_healthy")} >= urls
            except aiohttp.ClientError:
                return False

        await poll(healthy, READY_SECONDS, f"{self.policy} to have {len(urls)} healthy workers")
