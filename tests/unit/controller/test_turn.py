"""One turn: its order, what a failure stops, and that a service in a world comes up by turns alone."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from mtpilot.controller.context import Ports
from mtpilot.controller.turn import Memory, Outcome, run_turn
from mtpilot.reconcile import plan
from mtpilot.telemetry.metrics import OperatorMetrics
from tests.unit.controller.fakes import KEY, FakeCluster, failing, ports_of
from tests.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def cluster(world: World) -> FakeCluster:
    return FakeCluster(world)


@pytest.fixture
def ports(world: World, cluster: FakeCluster) -> Ports:
    return ports_of(world, cluster)


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


def sample(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"namespace": KEY[0], "service": KEY[1], **labels})


async def turn(ports: Ports, metrics: OperatorMetrics, memory: Memory | None = None) -> Outcome:
    return await run_turn(key=KEY, ports=ports, planner=plan, memory=memory if memory is not None else Memory(), metrics=metrics)


async def test_the_order_is_gather_hold_act_say_write(ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics) -> None:
    outcome = await turn(ports, metrics)
    assert not outcome.failed
    assert cluster.calls[:2] == ["gather", "hold"]
    order = {"EnsureSecret": 1, "ApplyObject": 1, "event": 2, "status": 3}
    ranks = [order[call] for call in cluster.calls[2:]]
    assert ranks == sorted(ranks)
    assert set(ranks) == {1, 2, 3}
    assert sample(metrics.registry, "mtpilot_status_writes_total") == 1
    assert sample(metrics.registry, "mtpilot_reconcile_last_success_timestamp_seconds") == ports.clock.now().timestamp()


async def test_turns_bring_a_service_up_and_then_write_nothing(
    world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics
) -> None:
    memory = Memory()
    for _ in range(120):
        await turn(ports, metrics, memory)
        world.step(1)
    assert world.serving() == 4
    assert sample(metrics.registry, "mtpilot_slots", mode="mtp", phase="Serving") == 4
    cluster.calls.clear()
    for _ in range(60):
        outcome = await turn(ports, metrics, memory)
        world.step(10)
    assert set(cluster.calls) == {"gather", "hold"}
    assert outcome.requeue_seconds > 0


async def test_without_the_finalizer_nothing_is_made(ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics) -> None:
    cluster.fail = failing("hold")
    outcome = await turn(ports, metrics)
    assert outcome.failed == "hold: hold refused"
    assert cluster.calls == ["gather", "hold"]
    assert sample(metrics.registry, "mtpilot_reconcile_errors_total", stage="hold") == 1


async def test_a_refused_action_ends_the_turn_and_is_told_once(ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics) -> None:
    cluster.fail = failing("ApplyObject")
    memory = Memory()
    for _ in range(3):
        outcome = await turn(ports, metrics, memory)
        assert outcome.failed
    assert "status" not in cluster.calls
    assert [(event.reason, event.message) for event in cluster.posted] == [("ReconcileFailed", "ApplyObject: ApplyObject refused")]
    cluster.fail = lambda call: None
    assert not (await turn(ports, metrics, memory)).failed
    assert memory.complained is None


async def test_an_event_that_is_refused_does_not_keep_the_status_from_being_written(
    ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics
) -> None:
    cluster.fail = failing("event")
    assert not (await turn(ports, metrics)).failed
    assert cluster.calls[-1] == "status"
    assert (sample(metrics.registry, "mtpilot_reconcile_errors_total", stage="event") or 0) >= 1


async def test_a_status_that_was_not_written_is_written_by_the_next_turn(
    world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics
) -> None:
    cluster.fail = failing("status", times=1)
    assert (await turn(ports, metrics)).failed == "status: status refused"
    assert not (await turn(ports, metrics)).failed
    assert world.status.replicas == 4


async def test_a_service_that_is_gone(world: World, ports: Ports, metrics: OperatorMetrics) -> None:
    world.released = True
    assert (await turn(ports, metrics)).gone


async def test_deletion_ends_with_the_release(world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics) -> None:
    memory = Memory()
    for _ in range(60):
        await turn(ports, metrics, memory)
        world.step(1)
    world.deleting_since = world.now
    for _ in range(120):
        if (await turn(ports, metrics, memory)).gone:
            break
        world.step(1)
    assert world.released
    assert not world.deployments
    assert cluster.calls[-2:] == ["ReleaseService", "gather"]


async def test_memory_is_of_one_incarnation(world: World, ports: Ports, metrics: OperatorMetrics) -> None:
    memory = Memory(uid="another", complained="x")
    await turn(ports, metrics, memory)
    assert memory.uid == "svc"
    assert memory.policy is not None
    assert memory.complained is None


async def test_a_bug_in_the_plan_is_not_hidden(ports: Ports, metrics: OperatorMetrics) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_turn(key=KEY, ports=ports, planner=broken, memory=Memory(), metrics=metrics)  # type: ignore[arg-type]
