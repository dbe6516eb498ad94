"""The load itself drives the mix: nothing is lost, and the GPU budget holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.scenarios.support import flips, under_load, until_mix

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
