"""SIGKILL under load of every kind: operator, agent and one of two gateways; only the streams of the killed gateway break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import aiohttp

from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene
from tests.integration.scenarios.gateway_processes import agents, proxies
from tests.integration.scenarios.mixed_load import CANNOT_CONNECT, CLIENTS, fast_service, mixed_load
from tests.integration.scenarios.support import flips, until_mix
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
DEAD_SECONDS = 1.0


async def pin(scene: Scene, *, mtp: int, batch: int) -> None:
    await scene.patch("chat", {"policy": {"pinned": {"mtp": mtp, "batch": batch}}})


async def test_kills_of_operator_agent_and_one_of_two_gateways_lose_only_its_own_streams(scene: Scene, operators: Operators) -> None:
    async with operators() as first:
        await scene.apply(fast_service(replicas=2, mtp=2, gateways=2))
        await scene.until_ready()
        async with mixed_load(scene) as load:
            await pin(scene, mtp=1, batch=1)
            await eventually(lambda: _moves(scene), seconds=20)
            await first.kill()
            await asyncio.sleep(DEAD_SECONDS)
            async with operators():
                await until_mix(scene, mtp=1, batch=1)
                await pin(scene, mtp=2, batch=0)
                await eventually(lambda: _moves(scene), seconds=20)
                killed_agent = agents(scene.namespace)[0]
                killed_agent.kill()
                killed, killed_at = load.urls[0], time.time()
                for process in proxies(killed):
                    process.kill()
                await until_mix(scene, mtp=2, batch=0)
                await eventually(lambda: _answers(killed), seconds=40)
                back_at = time.time()
                await eventually(lambda: _two_agents(scene), seconds=40)
                await load.short.wait_completed(20)
    broken = [loss for loss in load.losses if loss.target == killed and loss.sent_at <= killed_at <= loss.ended_at]
    refused = [
        loss for loss in load.losses if loss.target == killed and killed_at < loss.sent_at < back_at and CANNOT_CONNECT in loss.error
    ]
    assert len(broken) <= CLIENTS, "no more than there can be open at a time"
    assert len(broken) + len(refused) == len(load.losses), load.losses
    assert [outcome for _, _, outcome in flips(await scene.status())] == ["Completed"] * 2
    assert load.short.result is not None
    latest = load.short.result.records[-20:]
    assert {record.target for record in latest} == set(load.urls)
    # The restarted agents have put the new replica in.
    assert {record.served_by["x-mtpilot-replica"] for record in latest} == {"r0", "r1"}


async def _moves(scene: Scene) -> bool:
    return any(slot["phase"] != "Serving" for slot in (await scene.status()).get("slots") or ())


async def _answers(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def _two_agents(scene: Scene) -> bool:
    return len(agents(scene.namespace)) == 2
