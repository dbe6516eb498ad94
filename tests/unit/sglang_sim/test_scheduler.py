"""The batch: slots, queue, pace, and what frees a slot."""

import asyncio
import contextlib
import json
import time

import aiohttp
import pytest

from tests.unit.sglang_sim.running import Running, running

LONG = {"prompt": "a b marker:LONG", "max_tokens": 4000, "ignore_eos": True, "stream": True}


async def _counts(sim: Running) -> tuple[int, int]:
    _, text = await sim.get("/v1/loads")
    load = json.loads(text)["loads"][0]
    return load["num_running_reqs"], load["num_waiting_reqs"]


@contextlib.asynccontextmanager
async def _holding(sim: Running, streams: int):
    """Keep long streams open; each has had its first byte or waits in the queue."""

    async def hold() -> None:
        async with sim.session.post(sim.url + "/v1/completions", json=LONG) as response:
            await response.read()

    tasks = [asyncio.create_task(hold()) for _ in range(streams)]
    await _until(lambda: sim.server.scheduler.in_flight == streams)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until(condition, seconds: float = 5.0) -> None:
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("condition not met in time")


async def _step(sim: Running) -> tuple[float, float]:
    """Tokens generated so far, and the time, at the end of the next group of steps."""
    before = sim.server.scheduler.load().generated_tokens
    while (tokens := sim.server.scheduler.load().generated_tokens) == before:
        await asyncio.sleep(0.001)
    return tokens, time.monotonic()


async def test_requests_past_the_slots_wait_in_the_queue():
    async with running("--max-running-requests 3") as sim, _holding(sim, 5):
        assert await _counts(sim) == (3, 2)


async def test_the_queue_is_served_in_order_of_arrival():
    async with running("--max-running-requests 1", time_scale=20) as sim:
        done: list[int] = []

        async def one(index: int) -> None:
            await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 30})
            done.append(index)

        tasks = []
        for index in range(5):
            tasks.append(asyncio.create_task(one(index)))
            await _until(lambda expected=index + 1: sim.server.scheduler.in_flight + len(done) >= expected)
        await asyncio.gather(*tasks)
        assert done == [0, 1, 2, 3, 4]


async def test_admission_stops_at_the_kv_tokens():
    async with running("--max-total-tokens 9000 --context-length 8000") as sim, _holding(sim, 3):
        assert await _counts(sim) == (2, 1)


@pytest.mark.parametrize("victim", ["running", "waiting"])
async def test_a_client_that_goes_away_frees_its_place_at_once(victim):
    async with running("--max-running-requests 2") as sim, _holding(sim, 4) as tasks:
        await _until(lambda: len(sim.server.scheduler.decoding) == 2)
        tasks[0 if victim == "running" else 3].cancel()
        await _until(lambda: sim.server.scheduler.in_flight == 3, seconds=1.0)
        assert await _counts(sim) == (2, 1)


async def test_a_client_that_waits_for_a_whole_answer_and_goes_away_frees_its_slot():
    async with running() as sim:
        request = asyncio.create_task(sim.post("/v1/completions", {**LONG, "stream": False}))
        await _until(lambda: sim.server.scheduler.running == 1)
        request.cancel()
        await _until(lambda: sim.server.scheduler.in_flight == 0, seconds=1.0)


async def test_the_full_queue_is_refused_with_503():
    async with running("--max-running-requests 1 --max-queued-requests 1") as sim, _holding(sim, 2):
        status, body = await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
        assert (status, body["message"]) == (503, "The request queue is full.")


@pytest.mark.parametrize(("words", "batch"), [("", 1), ("", 68), ("--speculative-algorithm NEXTN", 24)])
async def test_the_rate_is_the_curves_within_5_percent(words, batch):
    async with running(words) as sim, _holding(sim, batch):
        scheduler = sim.server.scheduler
        await _until(lambda: len(scheduler.decoding) == batch)
        tokens, began = await _step(sim)
        await asyncio.sleep(0.8)
        later, ended = await _step(sim)
        rate = (later - tokens) / (ended - began)
        assert rate == pytest.approx(sim.server.engine.curve.tokens_per_second(batch), rel=0.05)


async def test_a_stalled_event_loop_is_caught_up_with():
    async with running() as sim, _holding(sim, 8):
        scheduler = sim.server.scheduler
        await _until(lambda: len(scheduler.decoding) == 8)
        tokens, began = await _step(sim)
        await asyncio.sleep(0.3)
        time.sleep(0.4)
        await asyncio.sleep(0.3)
        later, ended = await _step(sim)
        rate = (later - tokens) / (ended - began)
        assert rate == pytest.approx(sim.server.engine.curve.tokens_per_second(8), rel=0.05)


async def test_speculation_is_seen_in_the_request_and_in_the_counters():
    async with running("--speculative-algorithm NEXTN --enable-metrics", time_scale=10, accept_length=1.8) as sim:
        _, body = await sim.post("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 181}})
        assert body["meta_info"]["spec_verify_ct"] == 100
        assert body["meta_info"]["spec_accept_length"] == pytest.approx(1.81)
        registry = sim.server.telemetry.registry
        generated = registry["generation_tokens_total"].value("false")
        assert generated == 181 + 8
        assert generated / registry["spec_verify_calls_total"].value("false") == pytest.approx(1.8, rel=0.02)
        _, info = await sim.get("/server_info")
        assert json.loads(info)["internal_states"][0]["avg_spec_accept_length"] == pytest.approx(1.8, rel=0.02)


async def test_a_change_of_acceptance_changes_the_rate_but_not_the_step():
    async with running("--speculative-algorithm NEXTN", time_scale=5) as sim:
        began = time.monotonic()
        await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 201})
        full = time.monotonic() - began
        await sim.post("/sim/faults", {"accept_length": 1.0})
        began = time.monotonic()
        await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 201})
        assert (time.monotonic() - began) / full == pytest.approx(2.0, rel=0.15)


async def test_the_live_knob_caps_admission_without_a_restart():
    async with running("--max-running-requests 4") as sim:
        assert await sim.post("/set_internal_state", {"server_args": {"pp_max_micro_batch_size": 2}}) == (200, [True])
        for refused in ({"pp_max_micro_batch_size": 5}, {"pp_max_micro_batch_size": 0}, {"max_running_requests": 8}):
            assert await sim.post("/set_internal_state", {"server_args": refused}) == (200, [False])
        async with _holding(sim, 3):
            assert await _counts(sim) == (2, 1)


async def test_pause_in_place_stops_tokens_and_continue_goes_on():
    async with running() as sim, _holding(sim, 2):
        await _until(lambda: len(sim.server.scheduler.decoding) == 2)
        assert (await sim.post("/pause_generation", {"mode": "in_place"}))[0] == 200
        assert (await sim.get("/ready"))[0] == 503
        before = sim.server.scheduler.load().generated_tokens
        await asyncio.sleep(0.1)
        assert sim.server.scheduler.load().generated_tokens == before
        assert (await sim.post("/continue_generation", {}))[0] == 200
        await _until(lambda: sim.server.scheduler.load().generated_tokens > before)
        assert (await sim.get("/ready"))[0] == 200


async def test_abort_ends_the_answer_with_its_reason():
    async with running() as sim:
        answer = asyncio.create_task(sim.post("/generate", {"text": "x", "rid": "r-1", "sampling_params": {"max_new_tokens": 4000}}))
        await _until(lambda: sim.server.scheduler.running == 1)
        assert (await sim.post("/abort_request", {"rid": "r-1"}))[0] == 200
        status, body = await answer
        assert (status, body["meta_info"]["finish_reason"]["type"]) == (200, "abort")
        assert sim.server.telemetry.registry["num_aborted_requests_total"].value() == 1


async def test_flush_is_refused_while_busy():
    async with running() as sim:
        async with _holding(sim, 1):
            assert (await sim.get("/flush_cache"))[0] == 400
        await _until(lambda: sim.server.scheduler.in_flight == 0)
        assert (await sim.get("/flush_cache"))[0] == 200


async def test_a_connection_error_midway_leaves_the_engine_empty():
    async with running() as sim:
        async with aiohttp.ClientSession() as other:
            response = await other.post(
                sim.url + "/v1/chat/completions", json={"messages": [{"content": "x"}], "max_tokens": 4000, "stream": True}
            )
            await response.content.readline()
            assert sim.server.scheduler.running == 1
            response.close()
        await _until(lambda: sim.server.scheduler.in_flight == 0, seconds=1.0)
