"""Simulated replicas as processes: started, drained, replaced in the other mode."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from e2e.bench_gateway.parameters import MODEL, SLOTS
from e2e.clusters.local.process import Process
from mtpilot.render.environment import KEEP_ALIVE_SECONDS, KEEP_ALIVE_VARIABLE

PORT = 30000
READY_SECONDS = 30.0
_POLL_SECONDS = 0.05


class BenchError(RuntimeError):
    """Something of the bench itself did not come up or did not end; says what."""


@dataclass(slots=True, kw_only=True)
class Replica:
    """One engine; `generation` grows with each process at its address."""

    name: str
    address: str
    mode: str
    slots: int
    generation: int = 0
    process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}"


@dataclass(slots=True, kw_only=True)
class Fleet:
    """Replicas at `addresses`; `environment` is the simulator's (SGLANG_SIM_*)."""

    folder: Path
    session: aiohttp.ClientSession
    environment: Mapping[str, str]
    replicas: list[Replica] = field(default_factory=list)

    async def start(self, modes: Sequence[str], addresses: Sequence[str], *, slots: Mapping[str, int] = SLOTS) -> None:
        """Start one replica a mode and wait until all are ready."""
        for index, (mode, address) in enumerate(zip(modes, addresses, strict=True)):
            self.replicas.append(Replica(name=f"chat-r{index}", address=address, mode=mode, slots=slots[mode]))
        for replica in self.replicas:
            self._launch(replica)
        await asyncio.gather(*(self._until_ready(replica) for replica in self.replicas))

    def _launch(self, replica: Replica) -> None:
        # NB: a local folder as the model, so that no router looks for a tokenizer anywhere else.
        model = self.folder / "model"
        model.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "sglang_sim", "serve", str(model), "--served-model-name", MODEL, "--host", replica.address,
            "--port", str(PORT), "--enable-metrics", "--max-running-requests", str(replica.slots),
            *(["--speculative-algorithm", "NEXTN"] if replica.mode == "mtp" else []),
        ]  # fmt: skip
        settings = {
            KEEP_ALIVE_VARIABLE: str(KEEP_ALIVE_SECONDS),
            "SGLANG_SIM_LOAD_SECONDS": "0.3",
            "SGLANG_SIM_WARMUP_SECONDS": "0.05",
            "SGLANG_SIM_DRAIN_CHECK_SECONDS": "0.2",
            "SGLANG_SIM_MIN_EVENT_SECONDS": "0.02",
            "SGLANG_SIM_TICK_SECONDS": "0.01",
        }
        environment = {**os.environ, **settings, **self.environment, "POD_NAME": replica.name}
        with (self.folder / f"{replica.name}.log").open("ab") as log:
            replica.process = Process.start(command, pid_file=self.folder / f"{replica.name}.pid", output=log, environment=environment)
        replica.generation += 1

    async def _until_ready(self, replica: Replica) -> None:
        async def ready() -> bool:
            if replica.process is not None and replica.process.exit_code is not None:
                raise BenchError(f"{replica.name} ended with {replica.process.exit_code}: {self.folder / replica.name}.log")
            try:
                async with self.session.get(f"{replica.url}/ready") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        await poll(ready, READY_SECONDS, f"{replica.name} to be ready")

    async def in_flight(self, replica: Replica) -> int:
        """Requests that the engine runs or holds in its queue."""
        async with self.session.get(f"{replica.url}/v1/loads") as response:
            loads = (await response.json())["loads"]
        return sum(int(load["num_running_reqs"]) + int(load["num_waiting_reqs"]) for load in loads)

    async def until_idle(self, replica: Replica, seconds: float) -> None:
        """Until nothing is in flight at two looks in a row; BenchError after `seconds`."""
        idle = 0

        async def empty() -> bool:
            nonlocal idle
            idle = idle + 1 if await self.in_flight(replica) == 0 else 0
            return idle >= 2

        await poll(empty, seconds, f"{replica.name} to be idle")

    async def replace(self, replica: Replica, mode: str, *, grace_seconds: float) -> None:
        """SIGTERM, SIGKILL after the grace, and a process in `mode` at the same address, ready."""
        if replica.process is not None:
            await replica.process.stop(grace_seconds=grace_seconds)
        replica.mode, replica.slots = mode, SLOTS[mode]
        self._launch(replica)
        await self._until_ready(replica)

    async def stop(self) -> None:
        """End every replica."""
        running = [replica.process for replica in self.replicas if replica.process is not None]
        await asyncio.gather(*(process.stop(grace_seconds=2.0) for process in running))


async def poll(condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """Wait for an async condition; BenchError names what was waited for."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise BenchError(f"waited {seconds:.0f} s for {what}") from None
