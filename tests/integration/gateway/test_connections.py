"""Connections to engines: used again where no engine closes first, given up with the replica, and never a request lost or sent twice."""

import asyncio
import random

import aiohttp
import pytest

from mtpilot.render.environment import KEEP_ALIVE_VARIABLE
from tests.integration.gateway.stage import Stage, until
from tests.unit.gateway.pods import pod

# Around the time after which the engine closes: in each pause some connections close just as a request comes.
AWKWARD_SECONDS = 0.02


def around() -> float:
    return random.uniform(0, 2 * AWKWARD_SECONDS)


async def test_kept_connections_outlive_announced_ends_and_replaced_engines(stage, new_engine) -> None:
    """Engines as they are rendered, which end only when they are idle; each at the address of the one before."""
    engine = await new_engine(answers=True, announces=True)
    engines, address = [engine], engine.address
    stage.say(pod("chat-r0-1", address, slots=8))
    async with stage.clients(8, pause_seconds=around) as steady:
        for number in range(2, 7):
            stage.say(pod(f"chat-r0-{number - 1}", address, slots=8, serving=False))
            await stage.until_ready()
            await until(lambda: engine.running == 0)  # noqa: B023
            await engine.stop()
            stage.say()
            engine = await new_engine(answers=True, announces=True, address=address)
            engines.append(engine)
            stage.say(pod(f"chat-r0-{number}", address, slots=8))
            await steady.more(150)
    steady.assert_each_answered_once(*engines)
    assert sum(len(engine.connections) for engine in engines) < 0.6 * len(steady.answers), "connections are used again"


async def test_an_engine_that_closes_when_it_likes_gets_a_connection_for_each_request(new_stage, new_engine) -> None:
    stage = await new_stage(engine_env={KEEP_ALIVE_VARIABLE: "5"})
    engine = await new_engine(answers=True, keep_alive_seconds=AWKWARD_SECONDS)
    stage.say(pod(address=engine.address, slots=8))
    async with stage.clients(8, pause_seconds=around) as steady:
        await steady.more(800, 20)
    steady.assert_each_answered_once(engine)


@pytest.mark.parametrize("limit", [None, 1], ids=["in the pool", "in the lane"])
async def test_a_replica_that_leaves_keeps_no_connection(stage, new_engine, limit: int | None) -> None:
    """The next pod may have its address."""
    leaves, stays = await new_engine(answers=True), await new_engine(answers=True)
    stage.limits.limit = limit
    pods = [pod("chat-r0", leaves.address, mode="mtp"), pod("chat-r1", stays.address, mode="batch")]
    stage.say(*pods)
    await until(lambda: stage.agent.ready)
    await asyncio.gather(*(stage.post(str(number)) for number in range(8)))
    await until(lambda: leaves.open_connections() > 0)
    stage.say(pods[1])
    await until(lambda: leaves.open_connections() == 0)


async def outcome(stage: Stage, marker: str) -> str:
    try:
        answer = await stage.post(marker)
    except aiohttp.ServerDisconnectedError:
        return "closed"
    return "answered" if answer.status == 200 else answer.body["error"]["code"]


async def test_a_replica_that_dies_breaks_only_what_it_runs(stage, new_engine) -> None:
    """What it has seen is not repeated: an error, or the end of the client's connection where that to the engine had served before."""
    dies, stays = await new_engine(answers=True), await new_engine(answers=True)
    stage.say(pod("chat-r0", dies.address, slots=50), pod("chat-r1", stays.address, slots=50))
    await stage.until_ready(dies.address, stays.address)
    await asyncio.gather(*(stage.post(f"before-{number}") for number in range(8)))
    dies.break_off = True
    outcomes = [await outcome(stage, f"after-{number}") for number in range(8)]
    failed = [one for one in outcomes if one != "answered"]
    assert len(failed) == sum(marker.startswith("after") for marker in dies.received) > 0
    assert set(failed) <= {"closed", "replica_failed"}
    received = [*dies.received, *stays.received]
    assert len(received) == len(set(received)) == 16
