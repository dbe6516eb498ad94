"""Which mode takes a request: the rule, measured on the real HAProxy."""

import asyncio
import re
from typing import Any

from tests.integration.gateway.conftest import fresh_address
from tests.integration.gateway.stage import Stage, until
from tests.unit.gateway.pods import pod

MADE_ID = re.compile("[0-9a-f]{12}-[0-9]+")


async def mixed(stage: Stage, new_engine: Any, *, limit: int | None, mtp_slots: int = 8, batch_slots: int = 32) -> tuple[Any, Any]:
    """One replica of each mode, r0 mtp and r1 batch."""
    mtp, batch = await new_engine(), await new_engine()
    stage.limits.limit = limit
    stage.say(pod("chat-r0", mtp.address, slots=mtp_slots, mode="mtp"), pod("chat-r1", batch.address, slots=batch_slots, mode="batch"))
    if limit is None:
        await stage.until_ready(mtp.address, batch.address)
    else:
        await stage.until_ready(batch.address)
        await stage.until_lane(r0=min(limit, mtp_slots))
    return mtp, batch


async def send(stage: Stage, count: int, *engines: Any) -> list[asyncio.Task[Any]]:
    """Requests one after the other, each seen by an engine before the next is sent."""
    before = sum(engine.running for engine in engines)
    requests = []
    for number in range(count):
        requests.append(asyncio.create_task(stage.post(str(number))))
        await until(lambda: sum(engine.running for engine in engines) == before + number + 1)  # noqa: B023
    return requests


async def test_one_alone_runs_on_mtp_and_its_peers_on_batch(stage, new_engine) -> None:
    mtp, batch = await mixed(stage, new_engine, limit=1)
    requests = await send(stage, 4, mtp, batch)
    assert (mtp.running, batch.running) == (1, 3)
    mtp.gate.set()
    batch.gate.set()
    answers = await asyncio.gather(*requests)
    told = [(answer.headers["x-mtpilot-replica"], answer.headers["x-mtpilot-mode"]) for answer in answers]
    assert told == [("r0", "mtp"), *[("r1", "batch")] * 3]
    for number in range(10):
        assert (await stage.post(str(number))).headers["x-mtpilot-mode"] == "mtp", "one after the other is always alone"


async def test_the_limit_changes_while_requests_run(stage, new_engine) -> None:
    mtp, batch = await mixed(stage, new_engine, limit=3)
    await send(stage, 5, mtp, batch)
    assert (mtp.running, batch.running) == (3, 2)
    stage.limits.limit = 5
    await stage.until_lane(r0=5)
    await send(stage, 3, mtp, batch)
    assert (mtp.running, batch.running) == (5, 3)
    stage.limits.limit = 1
    await stage.until_lane(r0=1)
    await send(stage, 1, mtp, batch)
    assert (mtp.running, batch.running) == (5, 4)


async def test_batch_replicas_fill_by_their_slots(stage, new_engine) -> None:
    small, large, mtp = await new_engine(), await new_engine(), await new_engine()
    stage.limits.limit = 1
    stage.say(
        pod("chat-r0", mtp.address, slots=8, mode="mtp"),
        pod("chat-r1", small.address, slots=4, mode="batch"),
        pod("chat-r2", large.address, slots=16, mode="batch"),
    )
    await stage.until_lane(r0=1)
    await send(stage, 11, mtp, small, large)
    assert (mtp.running, small.running, large.running) == (1, 2, 8)


async def test_several_mtp_replicas_fill_evenly(stage, new_engine) -> None:
    first, second, batch = await new_engine(), await new_engine(), await new_engine()
    stage.limits.limit = 2
    pods = [pod(f"chat-r{i}", engine.address, slots=8, mode="mtp") for i, engine in enumerate((first, second))]
    stage.say(*pods, pod("chat-r2", batch.address, mode="batch"))
    await stage.until_lane(r0=2, r1=2)
    await send(stage, 2, first, second, batch)
    assert (first.running, second.running, batch.running) == (1, 1, 0)
    await send(stage, 3, first, second, batch)
    assert (first.running, second.running, batch.running) == (2, 2, 1)


async def test_when_batch_is_full_mtp_takes_the_rest_and_then_the_queue(stage, new_engine) -> None:
    mtp, batch = await mixed(stage, new_engine, limit=1, mtp_slots=4, batch_slots=2)
    requests = [asyncio.create_task(stage.post(str(number))) for number in range(9)]
    await until(lambda: (mtp.running, batch.running) == (4, 2), 4)
    await asyncio.sleep(1.2)
    assert (mtp.running, batch.running) == (4, 2), "never more than the slots"
    mtp.gate.set()
    batch.gate.set()
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
    assert (mtp.most, batch.most) == (4, 2)
    await stage.until_lane(r0=1)


async def test_without_a_limit_the_modes_share_by_slots(stage, new_engine) -> None:
    mtp, batch = await mixed(stage, new_engine, limit=None, mtp_slots=8, batch_slots=32)
    await send(stage, 10, mtp, batch)
    assert (mtp.running, batch.running) == (2, 8)


async def test_flips_between_the_modes_lose_nothing(stage, new_engine) -> None:
    """Two replicas under a steady load; one changes its mode ten times, in both directions."""
    stage.limits.limit = 1
    stays, moves = await new_engine(answers=True), await new_engine(answers=True)
    engines, steady_pod = [stays, moves], pod("chat-r0", stays.address, mode="batch")
    stage.say(steady_pod, pod("chat-r1", moves.address, mode="mtp"))
    await stage.until_lane(r1=1)
    async with stage.clients(6) as steady:
        for flip in range(10):
            old, mode = ("mtp", "batch") if flip % 2 == 0 else ("batch", "mtp")
            stage.say(steady_pod, pod("chat-r1", moves.address, mode=old, serving=False))
            await stage.until_ready(stays.address)
            await stage.until_lane()
            await until(lambda: moves.running == 0)  # noqa: B023
            await moves.stop()
            stage.say(steady_pod)
            moves = await new_engine(answers=True)
            engines.append(moves)
            stage.say(steady_pod, pod("chat-r1", moves.address, mode=mode))
            await steady.more(20)
            await until(lambda: moves.received, 5)  # noqa: B023
    steady.assert_each_answered_once(*engines)


async def test_a_dead_mtp_replica_costs_no_request(stage, new_engine) -> None:
    """It is ready by its pod, and nobody listens: what was sent there starts anew with the others."""
    batch, dead = await new_engine(answers=True), fresh_address()
    stage.limits.limit = 2
    stage.say(pod("chat-r0", dead, mode="mtp"), pod("chat-r1", batch.address, mode="batch"))
    await until(lambda: stage.agent.ready)
    answers = await asyncio.gather(*(stage.post(str(number)) for number in range(8)))
    assert {(answer.status, answer.headers["x-mtpilot-replica"]) for answer in answers} == {(200, "r1")}
    assert sorted(batch.received) == [str(number) for number in range(8)]


async def test_a_restarted_haproxy_gets_lane_and_modes_back(stage, new_engine) -> None:
    mtp, _ = await mixed(stage, new_engine, limit=2)
    mtp.gate.set()
    await stage.haproxy.kill()
    await stage.haproxy.start()
    await stage.until_lane(r0=2)
    assert (await stage.post("again")).headers["x-mtpilot-mode"] == "mtp"


async def test_a_request_has_an_id_in_and_out(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address, mode="mtp"))
    await stage.until_ready(engine.address)
    kept = await stage.post("kept", x_request_id="client-1.a:b_2")
    assert kept.headers["x-request-id"] == "client-1.a:b_2"
    assert kept.headers["x-mtpilot-mode"] == "mtp"
    made = [(await stage.post("made")).headers["x-request-id"] for _ in range(2)]
    assert len(set(made)) == 2
    assert all(MADE_ID.fullmatch(one) for one in made)
    assert engine.request_ids == [["client-1.a:b_2"], [made[0]], [made[1]]]
    for unsafe in ("a b", "x" * 200, "é", '"', ""):
        answer = await stage.post("unsafe", x_request_id=unsafe)
        assert MADE_ID.fullmatch(answer.headers["x-request-id"]), unsafe
        assert engine.request_ids[-1] == [answer.headers["x-request-id"]]
    await stage.session.post(f"{stage.haproxy.url}/v1/chat/completions", headers=[("x-request-id", "one"), ("x-request-id", "two")])
    assert engine.request_ids[-1] == ["two"], "one request has one id"
    assert MADE_ID.fullmatch((await stage.get("/unknown")).headers["x-request-id"])
