"""Requests of one conversation stay on one replica, while that has room and takes requests."""

import asyncio
import json
from typing import Any

import pytest

from tests.integration.gateway.stage import until
from tests.unit.gateway.pods import pod


@pytest.fixture
async def three(new_stage, new_engine):
    """A stage with affinity and three batch replicas of two slots that answer at once."""
    stage = await new_stage(affinity="Conversation")
    engines = [await new_engine(answers=True) for _ in range(3)]
    stage.say(*(pod(f"chat-r{i}", engine.address, slots=2, mode="batch") for i, engine in enumerate(engines)))
    await stage.until_ready(*(engine.address for engine in engines))
    return stage, engines


async def replicas(stage, count: int, body: dict[str, Any] | None = None, **headers: str) -> list[str]:
    data = json.dumps(body or {}).encode()
    return [(await stage.post("x", data=data, **headers)).headers["x-mtpilot-replica"] for _ in range(count)]


def turns(count: int) -> list[dict[str, Any]]:
    """A conversation's requests: each has all that was said before."""
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a flip?"}]
    bodies = []
    for number in range(count):
        bodies.append({"model": "m", "temperature": number / 10, "messages": list(said)})
        said += [{"role": "assistant", "content": f"answer {number}"}, {"role": "user", "content": f"question {number}"}]
    return bodies


async def test_without_a_name_replicas_take_turns(three) -> None:
    stage, _ = three
    assert len(set(await replicas(stage, 6))) == 3


async def test_a_header_a_user_or_the_beginning_names_a_conversation(three) -> None:
    stage, _ = three
    for number in range(4):
        assert len(set(await replicas(stage, 4, x_mtpilot_conversation=f"c{number}"))) == 1
        assert len(set(await replicas(stage, 4, {"model": "m", "user": f"u{number}"}))) == 1
    assert len({name for body in turns(5) for name in await replicas(stage, 1, body)}) == 1
    assert len(set(await replicas(stage, 4, {"model": "m", "prompt": "Once upon a time"}))) == 1


async def test_conversations_spread(three) -> None:
    stage, _ = three
    first = [(await replicas(stage, 1, x_mtpilot_conversation=f"c{number}"))[0] for number in range(12)]
    assert {first.count(name) for name in ("r0", "r1", "r2")} == {4}
    again = [(await replicas(stage, 1, x_mtpilot_conversation=f"c{number}"))[0] for number in range(12)]
    assert again == first


async def test_a_full_replica_makes_nobody_wait_while_another_is_free(three) -> None:
    stage, engines = three
    (home,) = await replicas(stage, 1, x_mtpilot_conversation="c")
    for engine in engines:
        engine.gate.clear()
    requests = [asyncio.create_task(stage.post(str(number), x_mtpilot_conversation="c")) for number in range(6)]
    await until(lambda: [engine.running for engine in engines] == [2, 2, 2])
    for engine in engines:
        engine.gate.set()
    names = [answer.headers["x-mtpilot-replica"] for answer in await asyncio.gather(*requests)]
    assert names.count(home) == 2


async def test_a_draining_replica_gets_nothing_new(three) -> None:
    stage, engines = three
    (home,) = set(await replicas(stage, 3, x_mtpilot_conversation="c"))
    index = int(home[1])
    rest = [engine.address for engine in engines if engine is not engines[index]]
    stage.say(*(pod(f"chat-r{i}", engine.address, slots=2, mode="batch", serving=i != index) for i, engine in enumerate(engines)))
    await stage.until_ready(*rest)
    served = len(engines[index].received)
    moved = await replicas(stage, 4, x_mtpilot_conversation="c")
    assert len(set(moved)) == 1
    assert len(engines[index].received) == served
    stage.say(*(pod(f"chat-r{i}", engine.address, slots=2, mode="batch") for i, engine in enumerate(engines)))
    await stage.until_ready(*(engine.address for engine in engines))
    assert set(await replicas(stage, 4, x_mtpilot_conversation="c")) == set(moved)


async def test_the_contention_rule_comes_first(new_stage, new_engine) -> None:
    stage = await new_stage(affinity="Conversation")
    mtp, batch = await new_engine(), await new_engine()
    stage.limits.limit = 1
    stage.say(pod("chat-r0", mtp.address, slots=4, mode="mtp"), pod("chat-r1", batch.address, slots=8, mode="batch"))
    await stage.until_lane(r0=1)
    requests = [asyncio.create_task(stage.post(str(number), x_mtpilot_conversation="c")) for number in range(4)]
    await until(lambda: (mtp.running, batch.running) == (1, 3))
    mtp.gate.set()
    batch.gate.set()
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
