"""Flips and changes of the spec under continuous load: nothing is lost, and the GPU budget holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.scenarios.support import changed_environment, flips, slot_pods, under_load, until_mix
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
GPUS_PER_REPLICA = 4
REPLICAS = 2


async def test_load_drives_the_mix_to_batch_and_back(scene: Scene, operators: Operators) -> None:
    policy = {
        "mode": "Auto",
        "stabilization": {"up": "2s", "down": "3s"},
        "minDwell": "1s",
        "maxFlipsPerHour": 60,
        "minReplicas": {"mtp": 1, "batch": 0},
    }
    async with operators("--rate-window", "5"):
        await scene.apply(inference_service(policy=policy))
        await scene.until_ready()
        async with under_load(scene, clients=2) as busy:
            async with under_load(scene, clients=40):
                up = await until_mix(scene, mtp=1, batch=1)
                assert flips(up) == [("mtp", "batch", "Completed")]
            down = await until_mix(scene, mtp=2, batch=0)
            assert flips(down) == [("mtp", "batch", "Completed"), ("batch", "mtp", "Completed")]
    assert busy.pods.gpus_peak == REPLICAS * GPUS_PER_REPLICA
    assert [entry["reason"] for entry in down["history"]][1] == "DemandFitsMtp"


async def test_spec_change_rolls_slot_by_slot_with_drain_under_load(scene: Scene, operator: Operator) -> None:
    service = inference_service()
    await scene.apply(service)
    await scene.until_ready()
    before = {slot: (await slot_pods(scene, slot))[0]["metadata"]["name"] for slot in ("chat-r0", "chat-r1")}
    async with under_load(scene) as busy:
        await scene.patch("chat", {"engine": {"env": changed_environment(service, SGLANG_SIM_SEED="7")}})
        generation = (await scene.get("inferenceservices", "chat") or {})["metadata"]["generation"]

        async def rolled() -> bool:
            status = await scene.status()
            return status.get("observedGeneration") == generation and len(busy.pods.created["chat-r1"]) == 2

        await eventually(rolled, seconds=60)
        status = await until_mix(scene, mtp=2, batch=0)
    assert flips(status) == []
    assert {slot: len(created) for slot, created in busy.pods.created.items()} == {"chat-r0": 2, "chat-r1": 2}
    assert not {pod["metadata"]["name"] for pod in busy.pods.engines()} & set(before.values())
    assert busy.pods.serving_least == REPLICAS - 1
    assert busy.pods.gpus_peak == REPLICAS * GPUS_PER_REPLICA
    assert len(await scene.events("DrainCompleted")) >= 1
    assert not await scene.events("DrainTimedOut")
