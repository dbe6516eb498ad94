"""Nodes that go away under a service: drained by a person, or lost without a word."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from e2e.kind import cluster as kind
from e2e.load import Outcome, background_load
from e2e.offline.docker import docker
from tests.e2e.conftest import KindScene, Tally
from tests.helm_release import HelmRelease
from tests.integration.scenarios.support import MODEL, flips, slot_pods, under_load, until_mix
from tests.integration.support import eventually

_NOTICED_SECONDS = 15  # the gateway's own checks take an engine out that does not answer


async def node_of(scene: KindScene, slot: str) -> str:
    (pod,) = await slot_pods(scene, slot)
    return str(pod["spec"]["nodeName"])


@pytest.mark.timeout(600)
async def test_drained_node_gives_its_replicas_to_the_other(installed: HelmRelease, scene: KindScene, tally: Tally) -> None:
    await scene.apply(scene.service())
    await scene.until_ready(seconds=120)
    await scene.expose()
    node = await node_of(scene, "chat-r0")
    async with under_load(scene, urls=scene.urls) as busy:
        try:
            options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=240s")
            await scene.cluster.kubectl("drain", node, *options)
            await until_mix(scene, mtp=2, batch=0, seconds=120)
        finally:
            await scene.cluster.kubectl("uncordon", node)
    tally.add(busy.load.result)
    assert node not in {await node_of(scene, "chat-r0"), await node_of(scene, "chat-r1")}
    assert flips(await scene.status()) == []
    assert busy.pods.serving_least >= 1


@contextlib.asynccontextmanager
async def lost(node: str) -> AsyncIterator[None]:
    """The node's machine is off while the block runs."""
    await asyncio.to_thread(docker, "kill", node)
    try:
        yield
    finally:
        await asyncio.to_thread(docker, "start", node)
        await asyncio.to_thread(kind.reconnect)


@pytest.mark.timeout(900)
async def test_lost_node_costs_no_request_that_comes_after_it(installed: HelmRelease, scene: KindScene, tally: Tally) -> None:
    await scene.apply(scene.service())
    await scene.until_ready(seconds=120)
    await scene.expose()
    first, other = await node_of(scene, "chat-r0"), await node_of(scene, "chat-r1")
    assert first != other, "the soft spread puts two replicas on two nodes"

    async def phases() -> dict[str, str]:
        return {slot["name"]: slot["phase"] for slot in (await scene.status())["slots"]}

    async def noticed() -> bool:
        return (await phases())["chat-r0"] != "Serving"

    async with background_load(scene.urls, clients=4, model=MODEL, output_tokens=300, pause_seconds=0.2, timeout_seconds=60) as load:
        await load.wait_completed(8, timeout_seconds=60)
        at = time.time()
        async with lost(first):
            await eventually(noticed, seconds=90)
            assert (await phases())["chat-r1"] == "Serving"
            assert (await scene.condition("chat", "Ready"))["status"] == "True"
            await load.wait_completed(20, timeout_seconds=120)
        await scene.until_ready(seconds=240)
    assert load.result is not None
    tally.add(load.result)
    not_answered = [record for record in load.result.records if record.outcome is not Outcome.COMPLETED]
    assert all(at - 60 < record.sent_at < at + _NOTICED_SECONDS for record in not_answered), load.result.problems()
