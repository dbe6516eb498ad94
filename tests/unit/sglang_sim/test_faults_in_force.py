"""Faults on a running server: each symptom is the one that was asked for."""

import asyncio
import json
import re

import pytest

from tests.unit.sglang_sim.running import Running, running


async def _gauge(sim: Running, name: str) -> str | None:
    _, page = await sim.get("/metrics")
    found = re.search(rf"^sglang:{name}\{{.*\}} (\S+)$", page, re.MULTILINE)
    return found.group(1) if found else None


async def test_gauges_can_be_nan_or_missing_while_counters_stay():
    async with running() as sim:
        await sim.post("/sim/faults", {"nan_gauges": ["num_running_reqs"], "missing_gauges": ["sglang:num_queue_reqs"]})
        assert await _gauge(sim, "num_running_reqs") == "NaN"
        assert await _gauge(sim, "num_queue_reqs") is None
        await sim.post("/sim/faults", {"nan_gauges": [], "missing_gauges": ["*"]})
        assert await _gauge(sim, "num_running_reqs") is None
        assert await _gauge(sim, "generation_tokens_total") == "8.0"
        await sim.session.delete(sim.url + "/sim/faults")
        assert await _gauge(sim, "num_running_reqs") == "0.0"


async def test_frozen_gauges_keep_their_last_value():
    async with running() as sim:
        await sim.post("/sim/faults", {"frozen_gauges": True})
        request = asyncio.create_task(sim.post("/v1/completions", {"prompt": "x", "max_tokens": 60}))
        await asyncio.sleep(0.2)
        assert sim.server.scheduler.running == 1
        assert await _gauge(sim, "num_running_reqs") == "0.0"
        await request


async def test_a_hang_shows_as_a_queue_with_nothing_running_and_ends_well():
    async with running() as sim:
        request = asyncio.create_task(sim.post("/v1/completions", {"prompt": "marker:H", "max_tokens": 50}))
        await asyncio.sleep(0.1)
        await sim.post("/sim/faults", {"hang": True})
        second = asyncio.create_task(sim.post("/v1/completions", {"prompt": "y", "max_tokens": 5}))
        await asyncio.sleep(0.05)
        assert (await _gauge(sim, "num_running_reqs"), await _gauge(sim, "num_queue_reqs")) == ("0.0", "2.0")
        _, loads = await sim.get("/v1/loads")
        assert [json.loads(loads)["loads"][0][name] for name in ("num_running_reqs", "num_waiting_reqs")] == [0, 2]
        assert (await sim.get("/health"))[0] == 503
        await sim.post("/sim/faults", {"hang": False})
        _, answer = await request
        assert answer["usage"]["completion_tokens"] == 50
        assert answer["choices"][0]["text"].endswith("marker:H")
        assert (await second)[0] == 200
        assert (await sim.get("/health"))[0] == 200


async def test_readiness_health_and_loads_can_be_spoiled():
    async with running() as sim:
        await sim.post("/sim/faults", {"ready": False, "health_seconds": 0.5, "loads_error": True, "empty_metrics": True})
        assert (await sim.get("/ready"))[0] == 503
        assert (await sim.get("/v1/loads"))[0] == 500
        assert await sim.get("/metrics") == (200, "")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await sim.get("/health")


async def test_a_slow_engine_takes_its_factor():
    async with running(time_scale=10) as sim:
        loop = asyncio.get_running_loop()
        took = []
        for factor in (1.0, 3.0):
            await sim.post("/sim/faults", {"slow_factor": factor})
            began = loop.time()
            await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 300})
            took.append(loop.time() - began)
        assert took[1] / took[0] == pytest.approx(3.0, rel=0.15)


async def test_an_unknown_fault_is_refused():
    async with running() as sim:
        status, body = await sim.post("/sim/faults", {"explode": True})
        assert status == 400
        assert "explode" in body["message"]


async def test_the_endpoint_is_closed_unless_the_environment_opened_it():
    async with running(faults_endpoint=False) as sim:
        assert (await sim.get("/sim/faults"))[0] == 404
