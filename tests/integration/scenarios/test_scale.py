"""Replicas come and go under load: through /scale, and when the service is deleted."""

from __future__ import annotations

import asyncio

from e2e.load import Request, Schedule, run_load
from mtpilot.model.names import selector
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene
from tests.integration.scenarios.looks import engine_uids, objects, pods, simulated
from tests.integration.scenarios.support import MODEL, assert_nothing_lost, gateway_urls, under_load
from tests.integration.support import eventually

WATCH_ONLY = {"mode": "RecommendOnly"}


async def scale(scene: Scene, replicas: int) -> None:
    """As anybody's autoscaler does it: through the subresource."""
    await scene.cluster.client.patch(f"{scene.path('inferenceservices', 'chat')}/scale", {"spec": {"replicas": replicas}})


async def scaled(scene: Scene, replicas: int) -> None:
    """Wait until the subresource, the status, the slots and the pods all say so."""

    async def there() -> bool:
        seen = (await scene.cluster.client.get(f"{scene.path('inferenceservices', 'chat')}/scale"))["status"]
        found = await scene.all("pods", seen.get("selector", ""))
        return bool(seen == {"replicas": replicas, "selector": selector("chat")} and len(found) == replicas)

    await scene.until_ready(replicas=replicas)
    await eventually(there, seconds=40, every_seconds=0.3)


async def test_scale_4_6_3_under_load_drains_before_it_takes_away(scene: Scene, operator: Operator) -> None:
    await scene.apply(simulated(replicas=4, policy=WATCH_ONLY))
    await scene.until_ready(replicas=4)
    four = await engine_uids(scene)
    async with under_load(scene, clients=14, output_tokens=400) as running:
        await scale(scene, 6)
        await scaled(scene, 6)
        six = await engine_uids(scene)
        assert four < six
        await running.load.wait_completed(14)
        await scale(scene, 3)
        await scaled(scene, 3)
        assert await engine_uids(scene) < six
        # Beyond the budget of GPUs at no time, and never fewer that serve than were asked for.
        assert running.pods.gpus_peak == 6 * 4
        assert running.pods.serving_least >= 3
    retired = [event["message"] for event in await scene.events("SlotRetired")]
    assert len(retired) == 3
    assert all("no request in flight" in text for text in retired)
    assert not await scene.events("DrainTimedOut")
    status = await scene.status()
    assert status["summary"]["ready"] == "3/3"
    assert not status.get("history")


async def test_delete_under_load_drains_first_and_leaves_nothing_behind(scene: Scene, operator: Operator) -> None:
    before = set(await objects(scene.cluster, scene.namespace))
    await scene.apply(simulated())
    await scene.until_ready()
    seen: Manifest = {}
    requests = tuple(Request(at_seconds=0.05 * index, input_tokens=50, output_tokens=1200) for index in range(8))
    load = asyncio.create_task(
        run_load(Schedule(requests=requests), await gateway_urls(scene), model=MODEL, on_counters=seen.update, timeout_seconds=60)
    )

    async def all_run() -> bool:
        return seen.get("in_flight") == len(requests)

    await eventually(all_run, seconds=20)
    await scene.delete("chat")

    async def draining() -> bool:
        phases = {slot["phase"] for slot in (await scene.status())["slots"]}
        return phases == {"Retiring"} and (await scene.condition("chat", "Ready"))["reason"] == "Deleting"

    await eventually(draining, seconds=10)
    assert seen["in_flight"] > 0
    assert len(await pods(scene, "engine")) == 2
    assert_nothing_lost(await load, at_least=len(requests))
    await scene.until_gone("inferenceservices", "chat")
    retired = [event["message"] for event in await scene.events("SlotRetired")]
    assert len(retired) == 2
    assert not await scene.events("DrainTimedOut")

    async def nothing_left() -> bool:
        return set(await objects(scene.cluster, scene.namespace)) == before

    await eventually(nothing_left, seconds=40, every_seconds=0.5)
