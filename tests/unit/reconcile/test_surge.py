"""Surge in the small world: a replica more before one less, and nothing of it left behind."""

from datetime import timedelta

from mtpilot.api.inference_service import Mode
from tests.unit.reconcile.lives import images, replace_image, settled
from tests.world import START, World, hardware, spec


def test_surge_adds_before_it_takes_away():
    world = settled(World(spec=spec(rollout={"strategy": "Surge"}), hardware=hardware(gpus_free=4)))
    world.spec = spec(rollout={"strategy": "Surge"}, policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    least, most = 4, 0
    for _ in range(200):
        world.step()
        world.tick()
        least, most = min(least, world.serving()), max(most, len(world.pods))
    assert world.modes() == (3, 1)
    assert least == 4
    assert most == 5
    assert world.lost == 0


def test_a_surge_that_fails_is_removed_and_remembered():
    world = settled(
        World(spec=spec(rollout={"strategy": "Surge"}), hardware=hardware(gpus_free=4), broken=lambda digest, mode: mode is Mode.BATCH)
    )
    world.spec = spec(rollout={"strategy": "Surge"}, policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    world.run(260, period=4)
    assert world.modes() == (4, 0)
    assert world.serving() == 4
    assert any(slot.state and slot.state.failed_digest for slot in world.snapshot().slots)


def test_surge_goes_there_and_back_and_rolls():
    """What a surge has left behind must not mislead the next one."""
    surge = {"strategy": "Surge"}
    world = settled(World(spec=spec(rollout=surge), hardware=hardware(gpus_free=4)))
    for mtp, batch in ((3, 1), (4, 0), (2, 2), (3, 1)):
        world.spec = spec(rollout=surge, policy={"mode": "Pinned", "pinned": {"mtp": mtp, "batch": batch}})
        world.run(150, period=3)
        assert world.modes() == (mtp, batch)
    assert [outcome for _, outcome in world.flips()] == ["Completed"] * 5
    world.spec = replace_image(world, "engine:2")
    world.run(300, period=4)
    assert images(world) == {"engine:2"}
    assert world.modes() == (3, 1)
    assert not any(slot.state and slot.state.surge for slot in world.snapshot().slots)
    assert world.most_pods == 5
    assert world.lost == 0


def test_a_surge_that_was_removed_counts_as_one_failure_however_often_the_removal_is_taken_again():
    surge = {"strategy": "Surge"}
    world = settled(World(spec=spec(rollout=surge), hardware=hardware(gpus_free=4), broken=lambda digest, mode: mode is Mode.BATCH))
    world.spec = spec(rollout=surge, policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    for _ in range(230):
        world.step()
        failed = any(slot.state and slot.state.failed_digest for slot in world.snapshot().slots)
        world.tick(stop_after=1 if len(world.deployments) == 5 and (failed or world.now >= START + timedelta(seconds=240)) else None)
    world.run(5)
    assert max(slot.state.failures for slot in world.snapshot().slots if slot.state) == 1
