"""Slots whose way forward and way back are both gone, and those that only seem so."""

import pytest

from mtpilot.api.status import SlotPhase
from mtpilot.model.names import LABEL_TEMPLATE_DIGEST
from tests.unit.reconcile.lives import images, replace_image, settled
from tests.world import World, spec


def stuck() -> World:
    """A flip that failed, and a way back that fails as well: a GPU was taken meanwhile."""
    world = settled()
    world.broken = lambda digest, mode: True
    world.spec = spec(policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    world.run(400, period=4)
    assert [line.phase for line in world.status.slots] == [SlotPhase.SERVING] * 3 + [SlotPhase.BROKEN]
    return world


def test_a_slot_that_is_stuck_does_not_take_its_peers_with_it():
    world = stuck()
    world.run(1200, period=6)
    assert world.serving() == 3
    assert len(world.status.history) == 1


def test_a_slot_that_is_stuck_writes_nothing():
    world = stuck()
    before = world.writes
    world.run(300, period=4)
    assert world.writes == before


@pytest.mark.parametrize("replicas", [3, 2])
def test_a_slot_that_is_stuck_goes_first_when_the_service_is_scaled_down(replicas: int):
    world = stuck()
    world.spec = spec(replicas=replicas)
    world.run(60)
    assert len(world.deployments) == replicas
    assert "chat-r3" not in world.deployments
    assert world.serving() == replicas
    assert world.lost == 0


def test_a_slot_that_is_stuck_keeps_nobody_from_scaling_up():
    world = stuck()
    world.broken = lambda digest, mode: False
    world.spec = spec(replicas=6)
    world.run(60)
    assert len(world.deployments) == 6


def test_a_slot_that_is_stuck_takes_a_new_spec_first():
    world = stuck()
    world.broken = lambda digest, mode: False
    world.spec = replace_image(world, "engine:2")
    world.tick()
    made = world.deployments["chat-r3"].manifest["spec"]["template"]["spec"]["containers"][0]["image"]
    assert made == "engine:2"
    world.run(300, period=4)
    assert images(world) == {"engine:2"}
    assert world.modes() == (3, 1)
    assert world.serving() == 4


def test_a_roll_whose_way_back_is_gone_is_tried_again_after_the_back_off():
    world = settled()
    old = {deployment.labels[LABEL_TEMPLATE_DIGEST] for deployment in world.deployments.values()}
    world.broken = lambda digest, mode: True
    world.spec = replace_image(world, "engine:2")
    world.run(300, period=4)
    assert world.status.slots[0].phase is SlotPhase.ROLLING_BACK
    world.broken = lambda digest, mode: digest in old
    world.run(900, period=4)
    assert images(world) == {"engine:2"}
    assert world.serving() == 4


def test_an_old_pod_that_ends_late_is_not_held_against_the_new_one():
    """Between the two there is no pod for a moment, long after the template was changed."""
    rollout = {"drainTimeout": "2m", "readyTimeout": "1m"}
    world = settled(World(spec=spec(rollout=rollout)))
    world.demand = 4000.0
    world.run(10)
    busy = next(uid for uid, pod in world.pods.items() if pod.slot == "chat-r3")
    world.spec = spec(rollout=rollout, policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    world.run(2)
    for _ in range(200):  # a request that the drain does not see the end of, nor most of the grace
        if busy in world.engines:
            world.engines[busy].running = 3
        world.run(1)
    del world.engines[busy], world.pods[busy]
    world.tick()
    assert world.flips() == [("chat-r3", "Started")]
    world.run(60)
    assert world.flips() == [("chat-r3", "Completed")]
