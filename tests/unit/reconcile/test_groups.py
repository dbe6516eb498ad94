"""Replicas over several nodes in the small world: the same flips, with another kind of object."""

from dataclasses import replace

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.model.slots import SlotKind
from mtpilot.model.snapshot import HardwareView
from tests.unit.reconcile.lives import settled
from tests.world import World, hardware, spec

PINNED = {"mode": "Pinned", "pinned": {"mtp": 1, "batch": 1}}


def over(nodes: int) -> HardwareView:
    on = HardwareClassSpec.model_validate({"gpu": {"perReplica": 16, "memory": "141Gi"}, "nodesPerReplica": nodes})
    return hardware(spec=on)


def world(nodes: int = 2) -> World:
    return settled(World(spec=spec(replicas=2), hardware=over(nodes)))


def kinds(found: World) -> set[SlotKind]:
    return {deployment.kind for deployment in found.deployments.values()}


def test_a_group_flips_with_drain_and_is_retired_as_what_it_is():
    found = world()
    assert kinds(found) == {SlotKind.LEADER_WORKER_SET}
    found.demand = 500.0
    found.spec = spec(replicas=2, policy=PINNED)
    found.run(100, period=2)
    assert found.modes() == (1, 1)
    found.spec = spec(replicas=1, policy={"mode": "Pinned", "pinned": {"mtp": 0, "batch": 1}})
    found.run(60, period=2)
    assert found.modes() == (0, 1)
    assert found.lost == 0


def test_a_group_that_is_made_anew_again_and_again_misses_its_deadline():
    found = world()
    good = {deployment.labels["mtpilot.dev/template-digest"] for deployment in found.deployments.values()}
    found.broken = lambda digest, mode: digest not in good
    found.spec = spec(replicas=2, policy=PINNED)
    for _ in range(120):
        found.step(4)
        for pod in found.pods.values():
            if pod.digest not in good and not pod.terminating:
                found.pods[pod.uid] = replace(pod, created_at=found.now)
        found.tick()
    assert [outcome for _, outcome in found.flips()] == ["RolledBack"]
    assert found.serving() == 2


def test_another_number_of_nodes_in_the_class_changes_the_kind_one_slot_at_a_time():
    found = world(nodes=1)
    assert kinds(found) == {SlotKind.DEPLOYMENT}
    found.hardware = over(2)
    least = 2
    for _ in range(80):
        found.step(2)
        found.tick()
        least = min(least, found.serving())
    assert kinds(found) == {SlotKind.LEADER_WORKER_SET}
    assert (found.serving(), least, found.lost) == (2, 1, 0)
