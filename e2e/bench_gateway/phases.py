"""What is done to each contender: the mixed load, two flips under load, and tiny answers one by one and all at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.bench_gateway.client import Plan
from e2e.bench_gateway.contenders import Contender, cpu_seconds
from e2e.bench_gateway.fleet import BenchError, Fleet, Replica
from e2e.bench_gateway.instant import InstantEngines
from e2e.bench_gateway.parameters import MODEL, Parameters
from e2e.load import LoadResult, background_load, run_load
from e2e.load.result import percentile

ROOT = Path(__file__).resolve().parents[2]
DIRECT_GRACE_SECONDS = 3.0
IDLE_SECONDS = 20.0
OnCounters = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """Tiny answers: seconds added to a request at the median and the 99th percentile against the engines themselves, and requests per
    second of gateway CPU, that is, per core, in the best of the rounds; without a gateway, requests per second of the client."""

    added_p50_seconds: float
    added_p99_seconds: float
    requests_per_second: float
    failed: int


@contextlib.asynccontextmanager
async def running(contender: Contender, replicas: Sequence[Replica], settle_seconds: float) -> AsyncIterator[Contender]:
    """A contender in front of replicas, ended afterwards."""
    try:
        await contender.start(replicas)
        await asyncio.sleep(settle_seconds)
        yield contender
    finally:
        await contender.stop()


async def mixed_load(contender: Contender, parameters: Parameters, on_counters: OnCounters | None = None) -> LoadResult:
    """The schedule of the mixed load."""
    return await run_load(parameters.mixed_load(), contender.urls, model=MODEL, timeout_seconds=60.0, on_counters=on_counters)


async def flips(contender: Contender, fleet: Fleet, parameters: Parameters) -> tuple[LoadResult, float]:
    """The last replica is drained and replaced in the other mode, and back, under steady load: its records, and seconds of both flips."""
    replica = fleet.replicas[-1]
    modes = ("mtp", replica.mode) if replica.mode == "batch" else ("batch", replica.mode)
    began = 0.0
    async with background_load(
        contender.urls, clients=10, model=MODEL, output_tokens=192, max_seconds=parameters.flip_most_seconds * 2, timeout_seconds=30.0
    ) as load:
        await asyncio.sleep(1.0)
        began = time.monotonic()
        for mode in modes:
            await _flip(contender, fleet, replica, mode)
        seconds = time.monotonic() - began
        await asyncio.sleep(1.0)
    if load.result is None:
        raise BenchError("the load of the flips gave no result")
    return load.result, seconds


async def _flip(contender: Contender, fleet: Fleet, replica: Replica, mode: str) -> None:
    await contender.remove(replica)
    if contender.pids:
        await fleet.until_idle(replica, IDLE_SECONDS)
    await fleet.replace(replica, mode, grace_seconds=IDLE_SECONDS if contender.pids else DIRECT_GRACE_SECONDS)
    await contender.add(replica)


async def tiny(contender: Contender, engines: InstantEngines, parameters: Parameters) -> Tiny:
    """Latency and rate with engines that answer at once; the contender has been started in front of them."""
    direct = tuple(replica.url for replica in engines.replicas)
    one_by_one = Plan(
        blocks=(direct[:1], contender.urls[:1]),
        connections=1,
        requests_per_block=parameters.latency_requests,
        rounds=parameters.latency_rounds,
    )
    await _client(Plan(blocks=(contender.urls,), connections=4, requests_per_block=200, max_seconds=5.0))
    latency = (await _client(one_by_one))["blocks"]
    plain, through = (block["seconds"] for block in latency)
    rates = [await _rate(contender, parameters) for _ in range(parameters.rate_rounds)]
    return Tiny(
        added_p50_seconds=percentile(through, 0.5) - percentile(plain, 0.5),
        added_p99_seconds=percentile(through, 0.99) - percentile(plain, 0.99),
        requests_per_second=max(rate for rate, _ in rates),
        failed=sum(failed for _, failed in rates) + sum(block["failed"] for block in latency),
    )


async def _rate(contender: Contender, parameters: Parameters) -> tuple[float, int]:
    """Requests per second of CPU, and how many failed."""
    plan = Plan(
        blocks=(contender.urls,), connections=parameters.rate_connections, requests_per_block=parameters.rate_requests, max_seconds=15.0
    )
    before = cpu_seconds(contender.pids)
    result = await _client(plan)
    used = cpu_seconds(contender.pids) - before if contender.pids else result["cpu_seconds"]
    block = result["blocks"][0]
    return (block["answers"] / used if used > 0 else 0.0), block["failed"]


async def _client(plan: Plan) -> dict[str, Any]:
    """Run the client as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "e2e.bench_gateway.client", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(plan.max_seconds + 30):
            out, error = await process.communicate(json.dumps(plan.document()).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise BenchError(f"the client of tiny answers: {error.decode()[-800:]}")
    result: dict[str, Any] = json.loads(out)
    return result
