"""The simulator as a process: load, readiness, drain on SIGTERM, exit codes, faults in start-up, cost."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process

import aiohttp
import pytest

from sglang_sim import bench

FAST = {"SGLANG_SIM_LOAD_SECONDS": "0.2", "SGLANG_SIM_WARMUP_SECONDS": "0", "SGLANG_SIM_DRAIN_CHECK_SECONDS": "0.2"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def _process(*words: str, **environment: str):
    port = _free_port()
    argv = ["python3", "-m", "sglang.launch_server", "--model-path", "m/x", "--host", "127.0.0.1", "--port", str(port), *words]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sglang_sim", *argv, env={**os.environ, **FAST, **environment}, stderr=PIPE
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _status(session: aiohttp.ClientSession, url: str) -> int | None:
    try:
        async with session.get(url) as response:
            return response.status
    except aiohttp.ClientConnectionError:
        return None


async def _ready(session: aiohttp.ClientSession, url: str, process: Process) -> None:
    for _ in range(500):
        if await _status(session, url + "/ready") == 200:
            return
        assert process.returncode is None
        await asyncio.sleep(0.02)
    raise AssertionError("not ready in time")


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as opened:
        yield opened


async def test_the_port_opens_after_the_load_and_readiness_after_the_warm_up(session):
    async with _process(SGLANG_SIM_LOAD_SECONDS="0.5", SGLANG_SIM_WARMUP_SECONDS="0.5") as (process, url):
        seen: list[int | None] = []
        for _ in range(500):
            status = await _status(session, url + "/ready")
            if not seen or seen[-1] != status:
                seen.append(status)
            if status == 200:
                break
            await asyncio.sleep(0.01)
        assert seen == [None, 503, 200]
        assert process.returncode is None


async def test_a_drain_finishes_what_runs_serves_late_arrivals_and_exits_0(session):
    async with _process("--max-running-requests", "4") as (process, url):
        await _ready(session, url, process)

        async def ask(tokens: int) -> str:
            body = {"prompt": "marker:D", "max_tokens": tokens, "stream": True}
            async with session.post(url + "/v1/completions", json=body) as response:
                text: str = await response.text()
                return text

        early = [asyncio.create_task(ask(120)) for _ in range(6)]
        await asyncio.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert await _status(session, url + "/ready") == 503
        assert await _status(session, url + "/health") == 503
        late = await ask(10)
        assert late.count("marker:D") == 2
        answers = await asyncio.gather(*early)
        assert all(answer.count("marker:D") == 2 and answer.endswith("data: [DONE]\n\n") for answer in answers)
        assert process.returncode is None or process.returncode == 0
        assert await asyncio.wait_for(process.wait(), 5) == 0


async def test_force_shutdown_does_not_wait(session):
    async with _process(SGL_FORCE_SHUTDOWN="1") as (process, url):
        await _ready(session, url, process)
        request = asyncio.create_task(session.post(url + "/v1/completions", json={"prompt": "x", "max_tokens": 4000}))
        await asyncio.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 5) == 0
        with pytest.raises(aiohttp.ClientError):
            (await request).close()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--mamba-scheduler-strategy", "auto"], 2, "--mamba-radix-cache-strategy"),
        (["--no-such-flag"], 2, "unrecognized arguments"),
        (["--speculative-algorithm", "MAGIC"], 1, "Unknown speculative algorithm name"),
    ],
)
async def test_what_cannot_start_exits_with_its_code(words, code, says):
    async with _process(*words) as (process, _):
        _, stderr = await asyncio.wait_for(process.communicate(), 10)
        assert process.returncode == code
        assert says in stderr.decode()


async def test_start_up_faults_are_chosen_by_mode_and_read_anew(session, tmp_path):
    file = tmp_path / "faults.json"
    file.write_text(json.dumps({"crash_on_start": ["mtp"], "never_ready": ["batch"]}))
    speculative = ("--speculative-algorithm", "NEXTN")
    async with _process(*speculative, SGLANG_SIM_FAULT_FILE=str(file)) as (process, _):
        assert await asyncio.wait_for(process.wait(), 10) == 1
    async with _process(SGLANG_SIM_FAULT_FILE=str(file)) as (process, url):
        for _ in range(100):
            if await _status(session, url + "/ready") is not None:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        assert await _status(session, url + "/ready") == 503
        assert await _status(session, url + "/health") == 503
    file.write_text("{}")
    async with _process(*speculative, SGLANG_SIM_FAULT_FILE=str(file)) as (process, url):
        await _ready(session, url, process)


async def test_a_crash_and_a_deaf_ear_to_sigterm(session):
    async with _process(SGLANG_SIM_FAULTS_ENDPOINT="1") as (process, url):
        await _ready(session, url, process)
        async with session.post(url + "/sim/faults", json={"ignore_sigterm": True}) as response:
            assert response.status == 200
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.6)
        assert await _status(session, url + "/ready") == 200
        async with session.post(url + "/sim/faults", json={"crash": True}) as response:
            assert response.status == 200
        assert await asyncio.wait_for(process.wait(), 5) == 1


async def test_health_takes_more_than_a_second_and_ready_takes_none(session):
    async with _process() as (process, url):
        await _ready(session, url, process)
        began = time.monotonic()
        assert await _status(session, url + "/ready") == 200
        assert time.monotonic() - began < 0.5
        began = time.monotonic()
        assert await _status(session, url + "/health") == 200
        assert time.monotonic() - began > 1.0


@pytest.mark.slow
async def test_four_replicas_of_64_streams_keep_their_step_times_on_two_cores():
    result = await bench.measure(mode="batch", replicas=4, streams=64, seconds=8, output_tokens=4000, interval=1)
    assert max(abs(error) for error in result.step_time_errors) < 0.05
    assert sum(result.cpu_per_replica) < 0.8
