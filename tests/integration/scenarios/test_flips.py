"""The load itself drives the mix: nothing is lost, and the GPU budget holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.scenarios.both_ways import GPUS, POLICY, drive_both_ways

Operators = Callable[..., AbstractAsyncContextManager[Operator]]


async def test_load_drives_the_mix_to_batch_and_back(scene: Scene, operators: Operators) -> None:
    async with operators("--rate-window", "5"):
        await scene.apply(inference_service(policy=POLICY))
        await scene.until_ready()
        moved = await drive_both_ways(scene)
    assert moved.gpus_peak == GPUS
    assert moved.reasons[1] == "DemandFitsMtp"
