"""Loads of engines: recorded answers, and engines that do not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mtpilot.adapters.sglang import SglangEngines, parse_loads
from mtpilot.api.inference_service import Mode
from mtpilot.model.slots import EngineLoad, Pod

RECORDINGS = Path(__file__).parents[2] / "contract/recordings/sglang-0.5.23"


def pod(uid: str, ip: str | None = "127.0.0.1", **changes: Any) -> Pod:
    at = datetime(2026, 12, 1, tzinfo=UTC)
    return Pod(name=uid, uid=uid, slot="chat-r0", mode=Mode.MTP, digest="d", ip=ip, created_at=at, **changes)


def test_the_recorded_answer() -> None:
    busy = parse_loads(json.loads((RECORDINGS / "loads-busy.json").read_text()))
    assert busy == EngineLoad(running=8, waiting=8, effective_max_running_requests=8)
    assert busy.in_flight == 16
    idle = parse_loads(json.loads((RECORDINGS / "loads-idle.json").read_text()))
    assert idle is not None
    assert idle.in_flight == 0


def test_data_parallel_ranks_add_up() -> None:
    rank = {"num_running_reqs": 3, "num_waiting_reqs": 1, "max_running_requests": 24}
    assert parse_loads({"loads": [rank, rank]}) == EngineLoad(running=6, waiting=2, effective_max_running_requests=48)
    without = {"num_running_reqs": 3, "num_waiting_reqs": 1}
    assert parse_loads({"loads": [rank, without]}) == EngineLoad(running=6, waiting=2)


@pytest.mark.parametrize(
    "document",
    [{}, [], None, {"loads": [{"num_running_reqs": 1}]}, {"loads": 3}, {"loads": [{"num_running_reqs": "x", "num_waiting_reqs": 0}]}],
)
def test_anything_else_is_no_load(document: Any) -> None:
    assert parse_loads(document) is None


@asynccontextmanager
async def engine(handler: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/v1/loads", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def test_engines_that_answer_are_in_the_result() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 0}]})

    async with engine(handler) as port, SglangEngines(port=port) as engines:
        found = await engines.loads([pod("a"), pod("no-address", ip=None), pod("finished", finished=True)])
    assert found == {"a": EngineLoad(running=2, waiting=0)}


@pytest.mark.parametrize(
    "answer", [web.Response(status=503), web.Response(text="not json"), web.Response(text="[]", content_type="application/json")]
)
async def test_an_engine_with_another_answer_is_left_out(answer: web.Response) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)

    async with engine(handler) as port, SglangEngines(port=port) as engines:
        assert await engines.loads([pod("a")]) == {}


async def test_a_hanging_or_absent_engine_is_left_out_in_time() -> None:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with engine(handler) as port, SglangEngines(port=port, timeout_seconds=0.2) as engines:
        async with asyncio.timeout(5):
            assert await engines.loads([pod("a"), pod("b")]) == {}
    async with SglangEngines(port=9, timeout_seconds=0.5) as engines:
        assert await engines.loads([pod("a")]) == {}
