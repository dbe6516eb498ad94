"""Every request is answered once, in full and with its own marker, under load of every kind, whatever is changed meanwhile."""

from __future__ import annotations

import signal

import psutil

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene
from tests.integration.scenarios.gateway_processes import proxies
from tests.integration.scenarios.mixed_load import fast_service, mixed_load
from tests.integration.scenarios.support import PodWatch, changed_environment, flips, until_mix
from tests.integration.support import eventually

FLIPS = 10
GPUS = 8
SLOTS = ("chat-r0", "chat-r1")


async def test_flips_a_reload_a_rollout_and_a_scale_down_lose_nothing(scene: Scene, operator: Operator) -> None:
    service = fast_service(replicas=2, mtp=2, gateways=1)
    await scene.apply(service)
    await scene.until_ready()
    async with PodWatch(scene).running() as pods, mixed_load(scene) as load:
        for number in range(FLIPS):
            back = number % 2
            await scene.patch("chat", {"policy": {"pinned": {"mtp": 1 + back, "batch": 1 - back}}})
            await until_mix(scene, mtp=1 + back, batch=1 - back)
        await reload(load.urls[0])
        await load.goes_on()
        await roll(scene, service, pods)
        assert pods.serving_least == 1
        await scene.patch("chat", {"replicas": 1, "policy": {"pinned": {"mtp": 1, "batch": 0}}})
        await scene.until_ready(replicas=1)
    assert load.losses == []
    assert [outcome for _, _, outcome in flips(await scene.status())] == ["Completed"] * FLIPS
    assert pods.gpus_peak == GPUS
    assert len(await scene.events("DrainCompleted")) >= 1
    assert not await scene.events("DrainTimedOut")


async def reload(url: str) -> None:
    """As an administrator does it by hand; the agent fills the new worker."""
    before = proxies(url)
    before[0].send_signal(signal.SIGUSR2)

    async def another_worker() -> bool:
        return bool(_pids(proxies(url)) - _pids(before))

    await eventually(another_worker, seconds=10)


def _pids(processes: list[psutil.Process]) -> set[int]:
    return {process.pid for process in processes}


async def roll(scene: Scene, service: Manifest, pods: PodWatch) -> None:
    """Change what makes every replica be replaced, slot by slot, each with a drain: once for each slot, and no flip."""
    before = {slot: list(created) for slot, created in pods.created.items()}
    await scene.patch("chat", {"engine": {"env": changed_environment(service, SGLANG_SIM_SEED="7")}})

    async def rolled() -> bool:
        return all(len(pods.created[slot]) > len(before[slot]) for slot in SLOTS)

    await eventually(rolled, seconds=60)
    await until_mix(scene, mtp=2, batch=0)
    assert {slot: len(pods.created[slot]) - len(before[slot]) for slot in SLOTS} == dict.fromkeys(SLOTS, 1)
    old = {name for names in before.values() for name in names}
    assert not {pod["metadata"]["name"] for pod in pods.engines()} & old
