"""Does the simulator keep its step times while everything runs on this machine?

Every engine tells the seconds that its curve gives for the steps it has done (`decode_moments` of /v1/loads) and the
seconds it stood idle. Busy wall time over curve time is 1 where steps last what they should; above 1 the machine is too
slow for the load, and throughput figures would measure the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass

import aiohttp

from e2e.demo.watching import Watcher, is_ready
from mtpilot.model import names

_IDLE = re.compile(r"^sglang:scheduler_idle_seconds_total\{[^}]*\} (\S+)", re.MULTILINE)
_MICROSECONDS = 2  # index in decode_moments
_EVERY_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One engine at one instant; seconds since its start."""

    at: float
    running: int
    curve_seconds: float
    idle_seconds: float


@dataclass(slots=True)
class StepTime:
    """Sums over pairs of readings of the same engine."""

    busy_seconds: float = 0.0
    curve_seconds: float = 0.0

    def add(self, before: Reading, after: Reading) -> None:
        """Count the time between two readings, unless the engine stood idle for a part of it."""
        busy = before.running > 0 and after.running > 0 and after.idle_seconds == before.idle_seconds
        if not busy or after.curve_seconds <= before.curve_seconds:
            return
        self.busy_seconds += after.at - before.at
        self.curve_seconds += after.curve_seconds - before.curve_seconds

    @property
    def ratio(self) -> float:
        """Busy wall time over curve time; NaN before anything was counted."""
        return self.busy_seconds / self.curve_seconds if self.curve_seconds else float("nan")


async def read_engine(session: aiohttp.ClientSession, address: str) -> Reading:
    """Ask one engine; aiohttp.ClientError, TimeoutError or ValueError where it does not answer as expected."""
    base, timeout = f"http://{address}:{names.ENGINE_PORT}", aiohttp.ClientTimeout(total=2)
    async with session.get(f"{base}/v1/loads", timeout=timeout) as answer:
        at = time.time()
        load = (await answer.json())["loads"][0]
    async with session.get(f"{base}/metrics", timeout=timeout) as answer:
        idle = _IDLE.search(await answer.text())
    if idle is None or "decode_moments" not in load:
        raise ValueError(f"{address}: no idle seconds or no decode moments")
    return Reading(
        at=at,
        running=load["num_running_reqs"],
        curve_seconds=load["decode_moments"][_MICROSECONDS] / 1e6,
        idle_seconds=float(idle.group(1)),
    )


async def measure(watcher: Watcher, session: aiohttp.ClientSession, total: StepTime) -> None:
    """Read all ready engines every few seconds until cancelled, and sum up in `total`."""
    last: dict[str, Reading] = {}

    async def one(uid: str, address: str) -> None:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
            reading = await read_engine(session, address)
            if uid in last:
                total.add(last[uid], reading)
            last[uid] = reading

    while True:
        pods = [pod for pod in watcher.pods_of(watcher.focus, names.COMPONENT_ENGINE) if is_ready(pod)]
        await asyncio.gather(*(one(pod["metadata"]["uid"], pod["status"]["podIP"]) for pod in pods))
        await asyncio.sleep(_EVERY_SECONDS)
