"""Two hardware classes, each with nodes of its own: every replica is where its class says, and the classes count their own GPUs."""

from __future__ import annotations

import pytest

from e2e.kind.gpus import RESOURCE
from tests.e2e.conftest import KindScene, Tally, hardware
from tests.helm_release import HelmRelease
from tests.integration.controller.scene import Manifest
from tests.integration.scenarios.support import under_load
from tests.integration.support import eventually


def small_class(scene: KindScene) -> Manifest:
    """One L4 for each replica."""
    made = hardware(scene.cluster, "l4-x1", perReplica=1, memory="24Gi")
    made["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    made["spec"]["engine"]["args"] = ["--tp-size", "1"]
    return made


@pytest.mark.timeout(600)
async def test_two_pools_with_two_hardware_classes(installed: HelmRelease, scene: KindScene, tally: Tally) -> None:
    await scene.apply(small_class(scene), scene.service(), scene.service("small", hardwareClass="l4-x1"))
    await scene.until_ready(seconds=120)
    await scene.until_ready("small", seconds=120)
    nodes = {node["metadata"]["name"]: node for node in (await scene.cluster.client.get("/api/v1/nodes"))["items"]}
    found: dict[str, set[tuple[str, str]]] = {}
    for pod in await scene.all("pods", "mtpilot.dev/component=engine"):
        product = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]["nvidia.com/gpu.product"]
        gpus = pod["spec"]["containers"][0]["resources"]["limits"][RESOURCE]
        found.setdefault(pod["metadata"]["labels"]["mtpilot.dev/service"], set()).add((product, gpus))
    assert found == {"chat": {("NVIDIA-RTX-PRO-6000-Blackwell", "4")}, "small": {("NVIDIA-L4", "1")}}

    async def counted() -> bool:
        classes = (await scene.cluster.client.get("/apis/mtpilot.dev/v1alpha1/hardwareclasses"))["items"]
        said = {item["metadata"]["name"]: (item.get("status") or {}).get("gpus") for item in classes}
        return said.get("rtx-x4") == {"total": 16, "free": 8} and said.get("l4-x1") == {"total": 2, "free": 0}

    await eventually(counted, seconds=90)
    await scene.expose("small")
    async with under_load(scene, clients=4, name="small", urls=scene.urls) as busy:
        await scene.patch("small", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})

        async def moved() -> bool:
            slots = (await scene.status("small"))["slots"]
            return sorted(slot["mode"] for slot in slots if slot["phase"] == "Serving") == ["batch", "mtp"]

        await eventually(moved, seconds=120)
    tally.add(busy.load.result)
    assert busy.pods.gpus_peak == 10
