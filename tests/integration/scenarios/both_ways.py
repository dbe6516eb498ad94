"""A fleet of two slots that load drives to batch, and its absence back to mtp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.load import LoadResult
from tests.integration.controller.scene import ClusterScene, Manifest
from tests.integration.scenarios.support import flips, under_load, until_mix

GPUS = 8  # of the two replicas of `scene.inference_service`
POLICY: Manifest = {
    "mode": "Auto",
    "stabilization": {"up": "2s", "down": "3s"},
    "minDwell": "1s",
    "maxFlipsPerHour": 60,
    "minReplicas": {"mtp": 1, "batch": 0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BothWays:
    """What was seen: most GPUs held at one time, the reasons of the flips, and the results of the two loads."""

    gpus_peak: int
    reasons: list[str]
    loads: tuple[LoadResult, ...]


async def drive_both_ways(scene: ClusterScene, *, urls: Sequence[str] | None = None, seconds: float = 60) -> BothWays:
    """Two clients all the time, forty more until a slot is in batch, then until it is back; `seconds` is for each direction."""
    async with under_load(scene, clients=2, urls=urls) as busy:
        async with under_load(scene, clients=40, urls=urls) as many:
            up = await until_mix(scene, mtp=1, batch=1, seconds=seconds)
            assert flips(up) == [("mtp", "batch", "Completed")]
        down = await until_mix(scene, mtp=2, batch=0, seconds=seconds)
        assert flips(down) == [("mtp", "batch", "Completed"), ("batch", "mtp", "Completed")]
    loads = tuple(load.result for load in (busy.load, many.load) if load.result is not None)
    return BothWays(gpus_peak=busy.pods.gpus_peak, reasons=[entry["reason"] for entry in down["history"]], loads=loads)
