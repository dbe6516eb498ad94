"""GPUs that are not there: the scheduler's words in a condition, and a way out that needs nobody's help.

The pool `l4` of the shared cluster has two GPUs in all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mtpilot.api.types import API_VERSION
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene, inference_service
from tests.integration.scenarios.looks import engine_uids
from tests.integration.scenarios.support import until_condition, until_mix
from tests.integration.support import eventually

L4: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "HardwareClass",
    "metadata": {"name": "l4"},
    "spec": {
        "gpu": {"perReplica": 1, "memory": "24Gi"},
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    },
}
HOG: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "hog"},
    "spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [{"name": "main", "image": "pause:3", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "terminationGracePeriodSeconds": 0,
    },
}


def small_service(*, replicas: int, **changes: Any) -> Manifest:
    return inference_service(replicas=replicas, hardwareClass="l4", **changes)


async def until_capacity(scene: Scene, status: str) -> Manifest:
    return await until_condition(scene, "CapacityAvailable", status, seconds=40)


async def test_no_gpu_free_is_told_and_resolved_by_freeing_or_by_scaling_down(scene: Scene, operator: Operator) -> None:
    await scene.apply(L4, HOG)

    async def hog_runs() -> bool:
        hog = await scene.get("pods", "hog")
        return hog is not None and hog["status"]["phase"] == "Running"

    await eventually(hog_runs)
    await scene.apply(small_service(replicas=2, policy={"mode": "RecommendOnly"}))
    short = await until_capacity(scene, "False")
    assert short["reason"] == "InsufficientGPUs"
    assert "Insufficient nvidia.com/gpu" in short["message"]  # the scheduler's words
    assert "nodes are available" in short["message"]

    async def one_serves() -> bool:
        ready = await scene.condition("chat", "Ready")
        return ready.get("status") == "True" and ready["reason"] == "SomeSlotsServe"

    await eventually(one_serves, seconds=40)
    serving = await engine_uids(scene)

    await scene.cluster.client.delete(scene.path("pods", "hog"))
    await scene.until_ready()
    assert await engine_uids(scene) == serving
    await until_capacity(scene, "True")

    await scene.patch("chat", {"replicas": 3})
    assert (await until_capacity(scene, "False"))["reason"] == "InsufficientGPUs"
    await scene.patch("chat", {"replicas": 2})
    await until_capacity(scene, "True")
    await scene.until_ready()

    async def the_same_two() -> bool:
        return await engine_uids(scene) == serving  # the one that never ran is the one that goes

    await eventually(the_same_two)


async def test_gpu_that_is_taken_during_a_flip_rolls_it_back_and_is_waited_for(scene: Scene, operator: Operator) -> None:
    """Somebody waits for a GPU and gets the one that a flip lets go: back it goes at the deadline, and it serves once there is one."""
    rollout = {"drainTimeout": "5s", "readyTimeout": "8s"}
    await scene.apply(L4, small_service(replicas=2, rollout=rollout))
    await scene.until_ready()
    await scene.apply(HOG)  # waits
    await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
    short = await until_capacity(scene, "False")
    assert short["reason"] == "InsufficientGPUs"
    assert "Insufficient nvidia.com/gpu" in short["message"]

    async def rolled_back() -> bool:
        history = (await scene.status()).get("history") or [{}]
        return bool(history[-1].get("outcome") == "RolledBack")

    await eventually(rolled_back, seconds=40)
    assert (await scene.condition("chat", "Ready"))["reason"] == "SomeSlotsServe"
    await scene.cluster.client.delete(scene.path("pods", "hog"))
    await until_capacity(scene, "True")
    await until_mix(scene, mtp=1, batch=1, seconds=90)  # the next try, after its back-off
    assert [entry["outcome"] for entry in (await scene.status())["history"]] == ["RolledBack", "Completed"]


async def test_surge_without_free_gpus_holds_until_there_are_some(scene: Scene, operator: Operator) -> None:
    await scene.apply(L4, small_service(replicas=2))
    await scene.until_ready()
    serving = await engine_uids(scene)
    surge = {"strategy": "Surge", "drainTimeout": "30s", "readyTimeout": "30s"}
    await scene.patch("chat", {"rollout": surge, "policy": {"pinned": {"mtp": 1, "batch": 1}}})

    async def held() -> bool:
        return ((await scene.status()).get("decision") or {}).get("reason") == "NoSurgeCapacity"

    await eventually(held, seconds=20)
    await asyncio.sleep(3)
    status = await scene.status()
    assert status["decision"]["reason"] == "NoSurgeCapacity"
    assert "0 are free" in status["decision"]["message"]
    assert (await scene.condition("chat", "ModeSettled"))["reason"] == "NoSurgeCapacity"
    assert status["mix"] == {"mtp": 2, "batch": 0}
    assert await engine_uids(scene) == serving

    await scene.patch("chat", {"replicas": 1, "policy": {"pinned": {"mtp": 0, "batch": 1}}})
    await until_mix(scene, mtp=0, batch=1)
    assert [(entry["from"], entry["to"], entry["outcome"]) for entry in (await scene.status())["history"]] == [
        ("mtp", "batch", "Completed")
    ]
