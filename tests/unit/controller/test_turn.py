"""One turn: its order, what a failure stops, and that a service in a world comes up by turns alone."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from mtpilot.controller.context import Ports
from mtpilot.controller.turn import Memory, Outcome, observe, run_turn
from mtpilot.reconcile import plan
from mtpilot.telemetry.metrics import OperatorMetrics
from tests.unit.controller.fakes import KEY, FakeCluster, failing, ports_of
from tests.world import START, World, spec


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


def degraded(world: World) -> tuple[str, str, str]:
    found = next(item for item in world.status.conditions if item.type == "Degraded")
    return found.status, found.reason, found.message


async def test_an_action_that_is_refused_for_good_ends_the_turn_and_is_told_once(
    world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics
) -> None:
    cluster.fail = failing("ApplyObject")
    memory = Memory()
    for _ in range(10):
        outcome = await turn(ports, metrics, memory)
        assert outcome.failed == "ApplyObject: ApplyObject refused"
        world.step(10)
    assert degraded(world) == ("True", "ReconcileFailed", "ApplyObject: ApplyObject refused")
    assert world.status.summary.reason == "ReconcileFailed"
    assert cluster.calls.count("status") == 1
    assert [(event.reason, event.message) for event in cluster.posted] == [("ReconcileFailed", "ApplyObject: ApplyObject refused")]
    cluster.fail = lambda call: None
    assert not (await turn(ports, metrics, memory)).failed
    assert memory.complained is None
    assert degraded(world)[0] == "False"


async def test_an_action_that_is_refused_once_is_no_trouble(
    world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics
) -> None:
    cluster.fail = failing("ApplyObject", times=1)
    memory = Memory()
    assert (await turn(ports, metrics, memory)).failed
    assert "status" not in cluster.calls
    assert not (await turn(ports, metrics, memory)).failed
    assert degraded(world)[0] == "False"


@pytest.mark.parametrize("refused", ["SetRolloutState", "ApplyObject", "DeleteObject"])
async def test_a_status_of_a_refused_plan_says_what_is_there_and_decides_nothing(
    world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics, refused: str
) -> None:
    """A flip that never got written must neither stand in the history nor be taken off the budget."""
    memory = Memory()
    for _ in range(60):
        await turn(ports, metrics, memory)
        world.step(1)
    cluster.fail = failing(refused)
    if refused == "DeleteObject":
        world.spec = spec(replicas=3)
    else:
        world.spec = spec(policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    world.demand = 4000.0
    for _ in range(40):
        await turn(ports, metrics, memory)
        world.step(5)
    assert degraded(world)[:2] == ("True", "ReconcileFailed")
    assert [line.name for line in world.status.slots] == sorted(world.deployments)
    decided = {slot.state.decided_at for slot in world.snapshot().slots if slot.state and slot.state.decided_at}
    assert len(world.status.history) == len(decided)
    assert len(world.status.policy.recent_moves) == len(decided)
    last = world.pods.popitem()[1]
    await turn(ports, metrics, memory)
    assert last.slot in {line.name for line in world.status.slots if line.phase != "Serving"}
    cluster.fail = lambda call: None
    for _ in range(200):
        await turn(ports, metrics, memory)
        world.step(1)
    assert degraded(world)[0] == "False"
    assert world.serving() == world.spec.replicas


async def test_a_new_slot_that_is_refused_does_not_stop_the_others(
    world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics
) -> None:
    memory = Memory()
    for _ in range(60):
        await turn(ports, metrics, memory)
        world.step(1)
    world.quota = 4
    world.spec = spec(replicas=5, policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 2}})
    for _ in range(120):
        await turn(ports, metrics, memory)
        world.step(1)
    assert world.modes() == (3, 1)
    assert world.serving() == 4
    assert world.flips() == [("chat-r3", "Completed")]
    assert degraded(world) == ("True", "ReconcileFailed", "ApplyObject: exceeded quota")


async def test_a_deletion_that_is_refused_is_told(world: World, ports: Ports, cluster: FakeCluster, metrics: OperatorMetrics) -> None:
    memory = Memory()
    for _ in range(60):
        await turn(ports, metrics, memory)
        world.step(1)
    world.deleting_since = world.now
    cluster.fail = failing("DeleteObject")
    for _ in range(20):
        await turn(ports, metrics, memory)
        world.step(1)
    assert degraded(world) == ("True", "ReconcileFailed", "DeleteObject: DeleteObject refused")
    assert len(world.deployments) == 4
    cluster.fail = lambda call: None
    await turn(ports, metrics, memory)
    assert degraded(world)[0] == "False"


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


async def test_lost_metrics_are_logged_once_and_so_is_their_return(world: World, ports: Ports, metrics: OperatorMetrics) -> None:
    memory = Memory()

    async def lines(turns: int) -> list[tuple[str, str]]:
        with capture_logs() as logs:
            for _ in range(turns):
                await turn(ports, metrics, memory)
                world.step(5)
        return [(line["log_level"], line.get("reason") or line["lost"]) for line in logs if line["event"].startswith("metrics ")]

    assert await lines(60) == []
    world.metrics = False
    assert await lines(5) == [("warning", "NoSeries")]
    world.metrics = True
    assert await lines(5) == [("info", "NoSeries")]


async def test_a_line_of_the_log_has_no_empty_reason(ports: Ports, metrics: OperatorMetrics) -> None:
    with capture_logs() as logs:
        await turn(ports, metrics)
    done = [line for line in logs if line["event"] == "done"]
    assert {line["action"] for line in done} == {"EnsureSecret", "ApplyObject"}
    assert all(line.get("why") != "" for line in done)


async def test_a_snapshot_tells_since_when_the_gateways_are_ready(world: World, ports: Ports, metrics: OperatorMetrics) -> None:
    for _ in range(5):
        await turn(ports, metrics)
        world.step(1)
    seen = await observe(ports, *KEY)
    assert seen is not None
    assert seen.metrics is not None
    assert seen.metrics.gateways_changed_at == START
