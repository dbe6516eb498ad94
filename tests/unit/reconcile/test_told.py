"""What status tells of troubles, and that it does not tell it again and again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.status import ConditionType, SlotPhase
from mtpilot.model.metrics import GatewayMetrics, MetricsView
from mtpilot.model.plan import EventType
from mtpilot.model.reasons import QUIET, WITHOUT_EVENT, Reason
from mtpilot.model.slots import EngineLoad
from mtpilot.policy.decide import decide
from mtpilot.reconcile import plan
from tests.unit.reconcile.lives import condition, settled
from tests.world import START, World, spec

PINNED = spec(policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})


def test_a_pod_that_the_api_server_refuses_is_told_in_its_words():
    world = settled()
    gone = next(pod.uid for pod in world.pods.values() if pod.slot == "chat-r3")
    del world.pods[gone]
    seen = world.snapshot()
    words = "pods is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4"
    slots = tuple(replace(slot, refused=words) if slot.name == "chat-r3" else slot for slot in seen.slots)
    made = plan(replace(seen, slots=slots), world.now)
    line = next(line for line in made.status.slots if line.name == "chat-r3")
    assert (line.phase, line.message) == (SlotPhase.PENDING, words)
    degraded = next(item for item in made.status.conditions if item.type is ConditionType.DEGRADED)
    assert (degraded.reason, degraded.message) == (Reason.RECONCILE_FAILED, f"chat-r3: {words}")


@pytest.mark.parametrize("hindered", ["class", "arguments"])
def test_slots_are_still_looked_at_while_nothing_can_be_done(hindered: str):
    world = settled()
    if hindered == "class":
        world.hardware = None
    else:
        modes = world.spec.modes
        batch = modes.batch.model_copy(update={"extra_args": ("--cuda-graph-max-bs", "8")})
        world.spec = world.spec.model_copy(update={"modes": modes.model_copy(update={"batch": batch})})
    for pod in list(world.pods.values()):
        world.pods[pod.uid] = replace(pod, ready=False, crash_looping=True)
        world.engines[pod.uid].ready_at = None
    world.tick()
    assert {line.phase for line in world.status.slots} == {SlotPhase.BROKEN}
    assert condition(world, ConditionType.READY).status is ConditionStatus.FALSE
    degraded = condition(world, ConditionType.DEGRADED)
    assert degraded.status is ConditionStatus.TRUE
    assert world.status.summary.reason == degraded.reason


def drifting_metrics(world: World, fault: str) -> Callable[[], MetricsView | None]:
    """Metrics whose fault has another number at every look."""
    good = world._metrics
    stood_still = good()

    def metrics() -> MetricsView | None:
        view = good()
        assert view is not None
        if fault == "frozen":
            return stood_still
        passed = (world.now - START).total_seconds()
        if fault == "gateway":
            return replace(view, gateway=replace(view.gateway or GatewayMetrics(), age_seconds=10 + passed))
        if fault == "hang":
            return replace(view, pods={uid: replace(item, running=0.0, queued=passed) for uid, item in view.pods.items()})
        return replace(view, pods={uid: replace(item, age_seconds=10 + passed) for uid, item in view.pods.items()})

    return metrics


@pytest.mark.parametrize("fault", ["gateway", "hang", "stale", "frozen"])
def test_a_fault_that_lasts_is_written_once(monkeypatch: pytest.MonkeyPatch, fault: str):
    world = settled()
    world.demand = 2000.0
    world.run(60)
    world.reachable = fault != "hang"
    monkeypatch.setattr(world, "_metrics", drifting_metrics(world, fault))
    world.demand = 8000.0 if fault == "frozen" else 2000.0
    world.run(10)
    before = world.writes
    world.run(300, period=4)
    assert world.status.decision is not None
    assert world.status.decision.reason in (Reason.STALE_SERIES, Reason.ENGINE_HANGS)
    assert condition(world, ConditionType.METRICS_AVAILABLE).reason == world.status.decision.reason
    assert world.writes == before


def test_a_long_drain_and_a_long_end_are_not_written_every_second():
    world = settled(World(request_seconds=90.0))
    world.demand = 6000.0
    world.run(60)
    world.spec = spec(policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}}, rollout={"drainTimeout": "30s"})
    world.run(5)
    world.engines[next(uid for uid, pod in world.pods.items() if not pod.serving)].running = 600
    world.run(1)
    before = world.writes
    for _ in range(20):
        world.step()
        world.tick()
    assert world.status.slots[3].phase is SlotPhase.DRAINING
    assert world.writes == before
    world.run(10)
    before, ending = world.writes, 0
    for _ in range(60):
        world.step()
        world.tick()
        ending += "finishes its requests" in (world.status.slots[3].message or "")
    assert ending >= 10
    assert world.writes - before <= 8


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (EngineLoad(running=2, waiting=1), "finishes its requests"),
        (EngineLoad(running=0, waiting=0), "has ended; no request in flight"),
        (None, "has ended (its engine does not answer)"),
    ],
)
def test_a_replaced_pod_finishes_requests_only_where_it_has_some(load: EngineLoad | None, words: str):
    world = settled()
    world.spec = PINNED
    while world.status.slots[3].phase is not SlotPhase.REPLACING:
        world.run(1)
        assert (world.now - START).total_seconds() < 120
    seen = world.snapshot()
    (old,) = (pod for pod in seen.pods if pod.slot == "chat-r3")
    pods = tuple(replace(pod, ready=False, terminating=True) if pod is old else pod for pod in seen.pods)
    made = plan(replace(seen, pods=pods, engines={} if load is None else {old.uid: load}), world.now)
    assert (made.status.slots[3].message or "").endswith(words)


def holds(world: World) -> list[tuple[EventType, str]]:
    return [(event.type, event.message.split(":")[0]) for event in world.events if event.reason == Reason.HOLDING]


def test_a_mix_that_is_pinned_and_reached_is_no_news():
    world = settled()
    world.spec = PINNED
    world.run(120)
    assert world.modes() == (3, 1)
    assert holds(world) == []


def test_replicas_that_are_too_young_for_series_are_no_news_but_series_that_never_come_are(monkeypatch: pytest.MonkeyPatch):
    world = World()
    good = world._metrics

    def empty() -> MetricsView:
        view = good()
        assert view is not None
        return replace(view, pods={})

    monkeypatch.setattr(world, "_metrics", empty)
    world.run(world.load_seconds + 5)
    assert world.status.decision is not None
    assert world.status.decision.reason == Reason.NO_SERIES_YET
    assert holds(world) == []
    world.run(60)
    assert holds(world) == [(EventType.WARNING, Reason.NO_SERIES)]


@pytest.mark.parametrize(
    ("words", "nodes", "reason"),
    [
        ("0/5 nodes are available: 4 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s).", 2, Reason.INSUFFICIENT_GPUS),
        ('0/5 nodes are available: persistentvolumeclaim "models" not found.', 2, Reason.UNSCHEDULABLE),
        ("0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector.", 0, Reason.NO_MATCHING_NODES),
    ],
)
def test_a_pod_without_a_node_is_not_always_short_of_gpus(words: str, nodes: int, reason: Reason):
    world = settled()
    seen = world.snapshot()
    assert seen.hardware is not None
    pods = tuple(replace(pod, ready=False, unschedulable=words) if pod.slot == "chat-r3" else pod for pod in seen.pods)
    made = plan(replace(seen, pods=pods, hardware=replace(seen.hardware, nodes=nodes)), world.now)
    capacity = next(item for item in made.status.conditions if item.type is ConditionType.CAPACITY_AVAILABLE)
    assert (capacity.status, capacity.reason) == (ConditionStatus.FALSE, reason)


@pytest.mark.parametrize("reason", [*sorted(WITHOUT_EVENT - {Reason.STAYING_IS_CHEAPER}), Reason.MIN_DWELL])
def test_a_quiet_reason_is_no_event_and_no_write_and_any_other_is_told_at_once(monkeypatch: pytest.MonkeyPatch, reason: Reason):
    world = settled()
    monkeypatch.setattr("mtpilot.reconcile.compose.decide", lambda **seen: replace(decide(**seen), reason=reason, move_to=None))
    made = plan(world.snapshot(), world.now)
    assert made.status.decision is not None
    assert made.status.decision.reason == reason
    assert made.write_status is (reason not in QUIET)
    assert [event.reason for event in made.events] == ([] if reason in WITHOUT_EVENT else [Reason.HOLDING])


def test_no_ready_replica_is_told_with_its_cause():
    world = settled()
    seen = world.snapshot()
    words = "0/5 nodes are available: 5 Insufficient nvidia.com/gpu."
    pods = tuple(replace(pod, ready=False, unschedulable=words) for pod in seen.pods)
    made = plan(replace(seen, pods=pods), world.now)
    assert made.status.decision is not None
    assert made.status.decision.reason == Reason.NO_READY_REPLICA
    assert made.status.summary.reason == Reason.INSUFFICIENT_GPUS


def test_an_engine_that_runs_fewer_requests_than_asked_is_told_in_ready():
    world = settled()
    seen = world.snapshot()
    asked = seen.service.spec.modes.mtp.max_running_requests
    engines = {uid: replace(load, effective_max_running_requests=asked // 2) for uid, load in seen.engines.items()}
    made = plan(replace(seen, engines=engines), world.now)
    ready = next(item for item in made.status.conditions if item.type is ConditionType.READY)
    assert f"mtp replicas run {asked // 2} requests at once, not modes.mtp.maxRunningRequests = {asked}" in ready.message
