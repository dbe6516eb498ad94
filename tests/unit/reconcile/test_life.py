"""A service's life in the small world: start, flip up and back, scale, roll, rollback, delete."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.inference_service import Mode
from mtpilot.api.status import ConditionType, SlotPhase
from mtpilot.model.names import LABEL_TEMPLATE_DIGEST
from mtpilot.model.reasons import Reason
from tests.unit.reconcile.lives import condition, images, replace_image, settled
from tests.world import World, hardware, spec


def overloaded() -> World:
    """A fleet that has seen its mtp replicas full."""
    world = settled()
    world.demand = 8500.0
    world.run(400, period=4)
    return world


def test_starts_all_slots_in_mtp_and_says_so():
    world = settled()
    assert world.modes() == (4, 0)
    assert world.status.summary.mix == "4 mtp / 0 batch"
    assert world.status.summary.ready == "4/4"
    assert condition(world, ConditionType.READY).status is ConditionStatus.TRUE
    assert world.status.selector == "mtpilot.dev/service=chat,mtpilot.dev/component=engine"


def test_writes_nothing_once_it_is_steady():
    world = settled()
    world.demand = 2000.0
    world.run(200, period=4)
    before = world.writes
    world.run(600, period=5)
    assert world.writes == before


def test_flips_up_under_overload_and_back_when_it_is_gone():
    world = overloaded()
    assert world.modes()[1] >= 1
    assert world.lost == 0
    assert world.most_pods == 4
    assert all(entry.from_mode is Mode.MTP for entry in world.status.history)
    world.demand = 800.0
    world.run(1500, period=5)
    assert world.modes() == (4, 0)
    assert world.lost == 0
    assert world.most_pods == 4
    assert any(entry.to_mode is Mode.MTP and entry.outcome == "Completed" for entry in world.status.history)


def test_each_decision_is_announced_with_its_numbers():
    world = overloaded()
    started = [event for event in world.events if event.reason == Reason.FLIP_STARTED]
    assert started
    assert "tok/s" in started[0].message


def test_one_slot_moves_at_a_time():
    world = settled()
    world.demand = 8500.0
    for _ in range(500):
        world.step()
        world.tick()
        moving = [slot for slot in world.status.slots if slot.phase in (SlotPhase.DRAINING, SlotPhase.REPLACING)]
        assert len(moving) <= 1
        assert world.serving() >= 3


def test_a_mode_that_is_never_ready_is_rolled_back_and_not_retried_before_the_back_off():
    world = settled(broken=lambda digest, mode: mode is Mode.BATCH)
    world.demand = 8500.0
    world.run(330, period=3)
    assert world.modes() == (4, 0)
    assert world.flips() == [(world.status.history[0].slot, "RolledBack")]
    assert condition(world, ConditionType.DEGRADED).reason == Reason.ROLLED_BACK
    world.run(60)
    assert len(world.status.history) == 1, "the back-off is three minutes"


def test_the_back_off_doubles():
    world = settled(broken=lambda digest, mode: mode is Mode.BATCH)
    world.demand = 8500.0
    world.run(2000, period=5)
    starts = [datetime.fromisoformat(entry.at) for entry in world.status.history]
    assert {entry.outcome for entry in world.status.history[:3]} == {"RolledBack"}
    first, second = (later - earlier for earlier, later in pairwise(starts[:3]))
    assert second - first >= timedelta(seconds=150), "the back-off went from three minutes to six"


def test_a_failed_template_is_of_no_interest_once_the_spec_has_another_one():
    world = settled(broken=lambda digest, mode: mode is Mode.BATCH)
    world.demand = 8500.0
    world.run(330, period=3)
    assert condition(world, ConditionType.DEGRADED).reason == Reason.ROLLED_BACK
    world.demand = 2000.0
    world.spec = replace_image(world, "engine:2")
    world.run(300, period=4)
    assert images(world) == {"engine:2"}
    assert condition(world, ConditionType.DEGRADED).status is ConditionStatus.FALSE


def test_a_failed_template_is_of_no_interest_once_another_slot_serves_with_it():
    world = settled(broken=lambda digest, mode: mode is Mode.BATCH)
    world.demand = 8500.0
    world.run(330, period=3)
    failed = next(slot for slot in world.snapshot().slots if slot.state and slot.state.failed_digest)
    world.broken = lambda digest, mode: False
    busy = next(uid for uid, pod in world.pods.items() if pod.slot == failed.name)
    world.engines[busy] = replace(world.engines[busy], running=1000)  # so that another slot is the one to flip
    assert condition(world, ConditionType.DEGRADED).status is ConditionStatus.TRUE
    for _ in range(400):
        world.step()
        if busy in world.engines:
            world.engines[busy] = replace(world.engines[busy], running=1000)
        world.tick()
        if world.modes()[1] >= 1 and world.status.history[-1].outcome == "Completed":
            break
    assert world.status.history[-1].slot != failed.name
    world.run(10)
    assert condition(world, ConditionType.DEGRADED).status is ConditionStatus.FALSE
    assert world.status.history[0].outcome == "RolledBack"


def test_a_spec_change_rolls_one_slot_at_a_time_with_drain():
    world = settled()
    world.demand = 2000.0
    world.spec = replace_image(world, "engine:2")
    least = 4
    for _ in range(400):
        world.step()
        world.tick()
        least = min(least, world.serving())
    assert images(world) == {"engine:2"}
    assert least == 3
    assert world.lost == 0


def test_a_bad_image_stops_at_the_first_slot_and_goes_back_to_the_old_template():
    world = settled()
    good = {deployment.labels[LABEL_TEMPLATE_DIGEST] for deployment in world.deployments.values()}
    world.broken = lambda digest, mode: digest not in good
    world.spec = replace_image(world, "engine:bad")
    world.run(300, period=4)
    assert images(world) == {hardware().spec.engine.image}
    assert world.serving() == 4
    world.broken = lambda digest, mode: False
    world.spec = replace_image(world, "engine:3")
    world.run(400, period=4)
    assert images(world) == {"engine:3"}


def test_a_bad_first_spec_can_be_corrected_in_all_slots_at_once():
    world = World(broken=lambda digest, mode: True)
    world.run(60)
    assert world.serving() == 0
    world.broken = lambda digest, mode: False
    world.spec = replace_image(world, "engine:good")
    world.run(40)
    assert world.serving() == 4


def test_scale_up_and_down_drains_first():
    world = settled()
    world.demand = 2000.0
    world.spec = world.spec.model_copy(update={"replicas": 6})
    world.run(60)
    assert world.serving() == 6
    world.spec = world.spec.model_copy(update={"replicas": 3})
    world.run(90)
    assert len(world.deployments) == 3
    assert world.serving() == 3
    assert world.lost == 0


def test_scaling_up_again_keeps_a_retiring_slot():
    world = settled()
    world.demand = 6000.0
    world.run(20)
    world.spec = world.spec.model_copy(update={"replicas": 3})
    world.run(3)
    uids = {deployment.uid for deployment in world.deployments.values()}
    world.spec = world.spec.model_copy(update={"replicas": 4})
    world.run(10)
    assert {deployment.uid for deployment in world.deployments.values()} == uids
    assert world.serving() == 4


def test_deletion_drains_then_removes_then_releases():
    world = settled()
    world.demand = 4000.0
    world.run(10)
    world.deleting_since = world.now
    world.run(60)
    assert world.deployments == {}
    assert world.pods == {}
    assert world.released
    assert world.lost == 0


def test_an_engine_that_does_not_answer_is_drained_until_the_deadline():
    world = settled()
    world.reachable = False
    world.spec = replace_image(world, "engine:2")
    world.run(100, period=2)
    assert images(world) == {hardware().spec.engine.image}
    world.run(40)
    assert "engine:2" in images(world)
    assert any(event.reason == Reason.DRAIN_TIMED_OUT for event in world.events)


def test_a_crash_looping_pod_is_replaced_without_a_drain():
    world = settled()
    slot = world.deployments["chat-r3"]
    uid = next(pod.uid for pod in world.pods.values() if pod.slot == slot.name)
    world.pods[uid] = replace(world.pods[uid], ready=False, crash_looping=True, restarts=5)
    world.engines[uid].ready_at = None
    world.tick()
    assert condition(world, ConditionType.DEGRADED).reason == Reason.CRASH_LOOP
    world.spec = replace_image(world, "engine:2")
    made = world.tick()
    assert next(line for line in made.status.slots if line.name == "chat-r3").phase is SlotPhase.REPLACING


def test_without_metrics_it_holds_and_says_why():
    world = overloaded()
    before = world.modes()
    world.metrics = False
    world.run(600, period=5)
    assert world.modes() == before
    assert condition(world, ConditionType.METRICS_AVAILABLE).status is ConditionStatus.FALSE


def test_recommend_only_moves_nothing():
    world = settled(World(spec=spec(policy={"mode": "RecommendOnly"})))
    world.demand = 8500.0
    world.run(400, period=4)
    assert world.modes() == (4, 0)
    assert world.status.recommended is not None
    assert world.status.recommended.batch >= 1


def test_pinned_goes_there_one_by_one_and_stays():
    world = settled()
    world.spec = spec(policy={"mode": "Pinned", "pinned": {"mtp": 1, "batch": 3}})
    least = 4
    for _ in range(300):
        world.step()
        world.tick()
        least = min(least, world.serving())
    assert world.modes() == (1, 3)
    assert least == 3


def test_a_single_replica_is_not_taken_away_unless_allowed():
    lone = spec(replicas=1, policy={"mode": "Pinned", "pinned": {"mtp": 0, "batch": 1}})
    world = World(spec=spec(replicas=1))
    world.run(60)
    world.spec = lone
    world.run(120, period=2)
    assert world.modes() == (1, 0)
    assert world.status.decision is not None
    assert world.status.decision.reason == Reason.DOWNTIME_NOT_ALLOWED
    world.spec = lone.model_copy(update={"rollout": lone.rollout.model_copy(update={"allow_downtime": True})})
    world.run(120, period=2)
    assert world.modes() == (0, 1)


def test_no_hardware_class_means_nothing_is_made():
    world = World(hardware=None)
    made = world.tick()
    assert made.actions == ()
    assert condition(world, ConditionType.CAPACITY_AVAILABLE).reason == Reason.HARDWARE_CLASS_MISSING
    settled_in = condition(world, ConditionType.MODE_SETTLED)
    assert (settled_in.status, settled_in.reason) == ("False", Reason.HARDWARE_CLASS_MISSING)
    assert "0 of 4 replicas" in settled_in.message
    assert [(event.type, event.reason) for event in made.events] == [("Warning", Reason.HARDWARE_CLASS_MISSING)]
    assert world.tick().events == ()


def test_arguments_that_cannot_be_rendered_change_nothing():
    world = settled()
    before = {name: deployment.manifest for name, deployment in world.deployments.items()}
    modes = world.spec.modes
    batch = modes.batch.model_copy(update={"extra_args": ("--cuda-graph-max-bs", "8")})
    world.spec = world.spec.model_copy(update={"modes": modes.model_copy(update={"batch": batch})})
    world.run(30)
    assert {name: deployment.manifest for name, deployment in world.deployments.items()} == before
    found = condition(world, ConditionType.DEGRADED)
    assert found.reason == Reason.INVALID_ARGUMENTS
    assert "--cuda-graph-max-bs-decode" in found.message


@pytest.mark.parametrize("slot", ["chat-r0", "chat-r3"])
def test_a_slot_that_somebody_deleted_comes_back_in_its_mode(slot: str):
    world = overloaded()
    modes = {line.name: line.mode for line in world.status.slots}
    del world.deployments[slot]
    world.pods = {uid: pod for uid, pod in world.pods.items() if pod.slot != slot}
    world.demand = 6000.0
    world.run(3)
    assert Mode(world.deployments[slot].labels["mtpilot.dev/mode"]) is modes[slot]


def test_status_says_over_which_time_the_load_was_measured():
    demand = settled().status.demand
    assert demand is not None
    assert demand.window == "30s"


@pytest.mark.parametrize(
    ("replicas", "rollout", "says"),
    [
        (4, {}, "Rolling"),
        (1, {}, "Rolling"),
        (1, {"allowDowntime": True}, "Recreate"),
        (4, {"allowDowntime": True}, "Rolling"),
        (4, {"strategy": "Surge"}, "Surge"),
    ],
)
def test_status_says_what_strategy_auto_means(replicas: int, rollout: dict[str, Any], says: str):
    assert settled(World(spec=spec(replicas=replicas, rollout=rollout))).status.effective.strategy == says
