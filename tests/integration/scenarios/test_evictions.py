"""Pods that somebody else takes away under load: an eviction and a plain deletion lose nothing."""

from __future__ import annotations

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.scenarios.support import evict, flips, slot_pods, under_load, until_mix
from tests.integration.support import eventually


async def until_replaced(scene: Scene, slot: str, uid: str) -> None:
    """Wait until another pod of the slot is ready and the old one is gone."""

    async def replaced() -> bool:
        pods = await scene.all("pods", f"mtpilot.dev/slot={slot}")
        return bool(pods) and all(pod["metadata"]["uid"] != uid for pod in pods)

    await eventually(replaced, seconds=60)
    await until_mix(scene, mtp=2, batch=0)


async def test_evicted_and_deleted_engines_lose_no_request(scene: Scene, operator: Operator) -> None:
    await scene.apply(inference_service())
    await scene.until_ready()
    async with under_load(scene) as busy:
        (first,) = await slot_pods(scene, "chat-r0")
        (peer,) = await slot_pods(scene, "chat-r1")
        assert await evict(scene, first["metadata"]["name"]) == 201
        assert await evict(scene, peer["metadata"]["name"]) == 429  # one at a time: the disruption budget
        await until_replaced(scene, "chat-r0", first["metadata"]["uid"])

        await scene.cluster.kubectl("delete", "pod", "-n", scene.namespace, peer["metadata"]["name"], "--wait=false")
        await until_replaced(scene, "chat-r1", peer["metadata"]["uid"])
    status = await scene.status()
    assert flips(status) == []
    assert {slot: len(created) for slot, created in busy.pods.created.items()} == {"chat-r0": 2, "chat-r1": 2}
    assert busy.pods.serving_least >= 1
    assert "turn failed" not in operator.lines()
