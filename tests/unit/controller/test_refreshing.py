"""Background statuses: refreshed by time and by wake, whatever fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog

from mtpilot.controller.refreshing import Refresher
from mtpilot.ports import ClusterError
from tests.integration.support import eventually


@contextlib.asynccontextmanager
async def running(refresher: Refresher) -> AsyncIterator[None]:
    task = asyncio.create_task(refresher.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_by_time_by_wake_and_after_failures() -> None:
    calls = 0

    async def refresh() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ClusterError("no answer")
        if calls == 2:
            raise KeyError("a bug")
        return 0

    async def called(times: int) -> None:
        async def enough() -> bool:
            return calls >= times

        await eventually(enough, seconds=5, every_seconds=0.005)

    refresher = Refresher("things", refresh, 0.01)
    with structlog.testing.capture_logs() as logs:
        async with running(refresher):
            await called(3)
    assert [(line["log_level"], line["what"]) for line in logs] == [("warning", "things"), ("error", "things")]
    refresher.period_seconds = 60.0
    before = calls
    async with running(refresher):
        await called(before + 1)
        refresher.wake()
        await called(before + 2)
