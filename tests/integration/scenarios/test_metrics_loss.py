"""Overload that the operator cannot see: it holds with the right reason, and moves as soon as it sees again.

The load asks for a move to batch all the time, so every look at which the mix is unchanged is a hold that was needed. The
faults follow each other without a healthy moment between them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from e2e.load import BackgroundLoad, background_load
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene
from tests.integration.scenarios.looks import engine_uids, set_faults, simulated
from tests.integration.scenarios.support import assert_nothing_lost, gateway_urls, until_condition
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
CLIENTS = 14  # of which 8 run in 2 × 4 mtp slots, and the rest wait at the gateway
HOLD_SECONDS = 4.0  # twice the stabilization
POLICY = {"mode": "Auto", "stabilization": {"up": "2s", "down": "1h"}, "minDwell": "1s", "maxFlipsPerHour": 60}


@asynccontextmanager
async def ready_service(scene: Scene, operators: Operators) -> AsyncIterator[Operator]:
    async with operators("--rate-window", "4") as operator:
        await scene.apply(simulated(policy=POLICY))
        await scene.until_ready()
        # Ready comes before the first scrape; a series that was never there is another reason than one that ended.
        await until_condition(scene, "MetricsAvailable", "True", seconds=30)
        yield operator


@asynccontextmanager
async def overload(scene: Scene) -> AsyncIterator[BackgroundLoad]:
    async with background_load(await gateway_urls(scene), clients=CLIENTS, model="qwen", output_tokens=300, max_seconds=150) as load:
        await load.wait_completed(CLIENTS)
        yield load


async def holds(scene: Scene, reason: str, case: str) -> None:
    """Wait for the reason, then see for HOLD_SECONDS that it stays and nothing moves."""

    async def decided() -> bool:
        return ((await scene.status()).get("decision") or {}).get("reason") == reason

    try:
        await eventually(decided, seconds=30, every_seconds=0.2)
    except AssertionError:
        raise AssertionError(f"{case}: no hold with {reason}, but {(await scene.status()).get('decision')}") from None
    end = asyncio.get_running_loop().time() + HOLD_SECONDS
    while asyncio.get_running_loop().time() < end:
        status = await scene.status()
        found = {item["type"]: item for item in status["conditions"]}
        assert status["decision"]["reason"] == reason, case
        assert status["decision"]["wouldChange"], case
        assert (found["MetricsAvailable"]["status"], found["MetricsAvailable"]["reason"]) == ("False", reason), case
        assert status["mix"] == {"mtp": 2, "batch": 0}, case
        assert not status.get("history"), case
        await asyncio.sleep(0.3)


async def flips(scene: Scene) -> None:
    async def moved() -> bool:
        return bool((await scene.status())["mix"] == {"mtp": 1, "batch": 1})

    await eventually(moved, seconds=40)
    (entry,) = (await scene.status())["history"]
    assert (entry["from"], entry["to"]) == ("mtp", "batch")


ENGINE_CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("NaN", {"nan_gauges": ["*"]}, "NotANumber"),
    ("queue missing", {"nan_gauges": [], "missing_gauges": ["sglang:num_queue_reqs"]}, "NotANumber"),
    ("gauges missing", {"missing_gauges": ["*"]}, "StaleSeries"),
    ("empty", {"empty_metrics": True}, "NoSeries"),
)


async def test_metrics_nan_missing_and_empty_hold_until_they_are_back(scene: Scene, operators: Operators) -> None:
    async with ready_service(scene, operators):
        before = await engine_uids(scene)
        await set_faults(scene, ENGINE_CASES[0][1])
        await holds(scene, ENGINE_CASES[0][2], "NaN, no load")
        async with overload(scene) as load:
            for case, faults, reason in ENGINE_CASES:
                await set_faults(scene, faults)
                await holds(scene, reason, case)
            assert await engine_uids(scene) == before
            await set_faults(scene, {"empty_metrics": False, "missing_gauges": [], "nan_gauges": []})
            await flips(scene)
        assert_nothing_lost(load.result, at_least=2 * CLIENTS)


@asynccontextmanager
async def broken_prometheus(scene: Scene) -> AsyncIterator[None]:
    """Whatever the test does to Prometheus, all tests after it find it as it was."""
    config = scene.cluster.state_dir / "prometheus" / "prometheus.yml"
    text = config.read_text()
    try:
        yield
    finally:
        await scene.cluster.prometheus.kill()
        config.write_text(text)
        await scene.cluster.prometheus.start()


async def test_prometheus_slow_down_and_without_scrapes_holds_until_it_is_back(scene: Scene, operators: Operators) -> None:
    prometheus = scene.cluster.prometheus
    config = scene.cluster.state_dir / "prometheus" / "prometheus.yml"
    async with ready_service(scene, operators):
        before = await engine_uids(scene)
        async with broken_prometheus(scene):
            assert prometheus.pid is not None
            os.kill(prometheus.pid, signal.SIGSTOP)
            await holds(scene, "PrometheusTimeout", "no load")
            async with overload(scene) as load:
                await holds(scene, "PrometheusTimeout", "stopped")
                await prometheus.kill()
                await holds(scene, "PrometheusUnreachable", "down")
                scraping = config.read_text()
                config.write_text("global: {}\n")
                await prometheus.start()
                await holds(scene, "StaleSeries", "no scrapes")
                assert await engine_uids(scene) == before
                await prometheus.stop()
                config.write_text(scraping)
                await prometheus.start()
                await flips(scene)
            assert_nothing_lost(load.result, at_least=2 * CLIENTS)


async def test_hanging_engine_is_degraded_and_no_low_load(scene: Scene, operators: Operators) -> None:
    async with ready_service(scene, operators):
        before = await engine_uids(scene)
        await set_faults(scene, {"hang": True}, engines=1)
        async with overload(scene) as load:
            await holds(scene, "EngineHangs", "hang")
            degraded = await scene.condition("chat", "Degraded")
            assert (degraded["status"], degraded["reason"]) == ("True", "EngineHangs")
            assert "hangs" in degraded["message"]
            assert await engine_uids(scene) == before
            await set_faults(scene, {"hang": False})
            await flips(scene)
            assert (await scene.condition("chat", "Degraded"))["status"] == "False"
        assert_nothing_lost(load.result, at_least=2 * CLIENTS)
