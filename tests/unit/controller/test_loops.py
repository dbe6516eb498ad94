"""Loops: one per service, woken by events, patient with failures, ended with their service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from mtpilot.controller import loops as loops_module
from mtpilot.controller.heartbeat import Heartbeat
from mtpilot.controller.loops import Loops
from mtpilot.reconcile import plan
from mtpilot.telemetry.metrics import OperatorMetrics
from tests.integration.support import eventually
from tests.unit.controller.fakes import KEY, FakeCluster, failing, ports_of
from tests.world import World


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(World(load_seconds=5))


@pytest.fixture
async def loops(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Loops]:
    monkeypatch.setattr(loops_module, "_SETTLE_SECONDS", 0.005)
    monkeypatch.setattr(loops_module, "_BACK_OFF_SECONDS", (0.05, 0.2))
    monkeypatch.setattr(loops_module, "_PATIENCE_SECONDS", 0.05)
    made = Loops(ports=ports_of(cluster.world, cluster), planner=plan, metrics=OperatorMetrics(), period_seconds=60)
    yield made
    await made.stop()


def turns(cluster: FakeCluster) -> int:
    return cluster.calls.count("gather")


async def until_turns(cluster: FakeCluster, count: int) -> None:
    async def enough() -> bool:
        return turns(cluster) >= count

    await eventually(enough, seconds=5, every_seconds=0.01)


async def settled(cluster: FakeCluster, loops: Loops) -> None:
    """Let the world come up, so that a turn asks for no other soon."""
    loops.ensure(KEY)
    for _ in range(30):
        loops.wake(KEY)
        await asyncio.sleep(0.012)
        cluster.world.step(1)
    assert cluster.world.serving() == 4


async def test_a_wake_makes_a_turn_and_no_wake_makes_none(cluster: FakeCluster, loops: Loops) -> None:
    await settled(cluster, loops)
    await asyncio.sleep(0.1)
    before = turns(cluster)
    await asyncio.sleep(0.1)
    assert turns(cluster) == before
    for _ in range(5):
        loops.wake(KEY)  # a burst
    await until_turns(cluster, before + 1)
    await asyncio.sleep(0.1)
    assert turns(cluster) == before + 1


async def test_a_change_in_a_namespace_wakes_its_services_and_no_others(cluster: FakeCluster, loops: Loops) -> None:
    await settled(cluster, loops)
    await asyncio.sleep(0.1)
    before = turns(cluster)
    loops.wake_namespace("team-b")
    await asyncio.sleep(0.05)
    assert turns(cluster) == before
    loops.wake_namespace(KEY[0])
    await until_turns(cluster, before + 1)


async def test_the_period_makes_turns_without_events(cluster: FakeCluster, loops: Loops) -> None:
    loops.period_seconds = 0.02
    loops.ensure(KEY)
    await until_turns(cluster, 5)


async def test_one_loop_per_service(cluster: FakeCluster, loops: Loops) -> None:
    loops.ensure(KEY)
    loops.ensure(KEY)
    assert loops.keys() == (KEY,)
    loops.wake(("team-b", "unknown"))
    assert loops.keys() == (KEY,)


async def test_a_loop_ends_with_its_service_and_starts_again_with_a_new_one(cluster: FakeCluster, loops: Loops) -> None:
    cluster.world.released = True
    loops.ensure(KEY)

    async def ended() -> bool:
        return loops.keys() == ()

    await eventually(ended, seconds=5, every_seconds=0.01)
    assert len(loops.heartbeat) == 0
    assert (
        loops.metrics.registry.get_sample_value("mtpilot_reconcile_duration_seconds_count", {"namespace": KEY[0], "service": KEY[1]})
        is None
    )
    cluster.world.released = False
    loops.ensure(KEY)
    await until_turns(cluster, 2)
    assert loops.keys() == (KEY,)


async def test_an_event_during_the_last_turn_keeps_the_loop(cluster: FakeCluster, loops: Loops) -> None:
    cluster.world.released = True

    def recreated(call: str) -> None:
        if call == "gather" and turns(cluster) == 1:
            loops.ensure(KEY)  # the watch tells of a new service while the read still found none

    cluster.fail = recreated
    loops.ensure(KEY)
    await until_turns(cluster, 2)


async def test_failures_back_off_and_are_survived(cluster: FakeCluster, loops: Loops) -> None:
    cluster.fail = failing("gather", times=2)
    loops.ensure(KEY)
    await until_turns(cluster, 3)
    assert loops.keys() == (KEY,)
    errors = loops.metrics.registry.get_sample_value(
        "mtpilot_reconcile_errors_total", {"namespace": KEY[0], "service": KEY[1], "stage": "gather"}
    )
    assert errors == 2


async def test_a_bug_does_not_end_the_loop(cluster: FakeCluster, loops: Loops) -> None:
    calls = 0

    def planner(*arguments: Any, **failure: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError("bug")
        return plan(*arguments, **failure)

    loops.planner = planner

    async def planned_again() -> bool:
        return calls >= 2

    with structlog.testing.capture_logs() as lines:
        loops.ensure(KEY)
        await eventually(planned_again, seconds=5, every_seconds=0.02)
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert (line["event"], line["namespace"], line["service"]) == ("turn failed unexpectedly", *KEY)


async def test_a_turn_that_hangs_is_cut_off(cluster: FakeCluster, loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops_module, "TURN_SECONDS", 0.05)

    async def hang(*_: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(cluster, "hold", hang)
    loops.ensure(KEY)
    await until_turns(cluster, 2)


async def test_stop_ends_all(cluster: FakeCluster, loops: Loops) -> None:
    loops.ensure(KEY)
    loops.ensure(("team-b", "chat"))
    await loops.stop()
    assert loops.keys() == ()


async def test_after_stop_nothing_starts(loops: Loops) -> None:
    await loops.stop()
    loops.ensure(KEY)
    assert loops.keys() == ()


async def test_services_that_no_event_told_of_are_found_and_others_are_not_woken(cluster: FakeCluster, loops: Loops) -> None:
    await settled(cluster, loops)
    await asyncio.sleep(0.1)
    before = turns(cluster)
    with structlog.testing.capture_logs() as lines:
        loops.ensure_all([KEY, ("team-b", "chat")])
    await until_turns(cluster, before + 1)
    await asyncio.sleep(0.05)
    assert loops.keys() == (KEY, ("team-b", "chat"))
    assert [line["namespace"] for line in lines if line["log_level"] == "warning"] == ["team-b"]


def test_heartbeat_tells_who_is_silent() -> None:
    now = 0.0
    heartbeat = Heartbeat(stale_seconds=100, clock=lambda: now)
    heartbeat.beat(KEY)
    heartbeat.beat(("team-b", "other"))
    now = 99.0
    assert heartbeat.stale() == ()
    heartbeat.beat(KEY)
    now = 150.0
    assert heartbeat.stale() == (("team-b", "other"),)
    heartbeat.forget(("team-b", "other"))
    assert heartbeat.stale() == ()
