"""A configuration that is loaded anew, and how fast a change of the pods is there, on a gateway with many replicas."""

import time
from statistics import quantiles
from typing import Any

from mtpilot.gateway.pods import ServerState
from tests.integration.gateway.conftest import MOST_REPLICAS, fresh_address
from tests.integration.gateway.stage import until
from tests.unit.gateway.pods import pod


async def test_a_reload_drops_nothing(stage, new_engine) -> None:
    """An open stream, requests that wait and a steady load over three reloads."""
    stage.limits.limit = 1
    mtp, batch = await new_engine(answers=True), await new_engine(answers=True)
    stage.say(pod("chat-r0", mtp.address, slots=4, mode="mtp"), pod("chat-r1", batch.address, slots=2, mode="batch"))
    await stage.until_lane(r0=1)
    async with stage.session.post(f"{stage.haproxy.url}/v1/stream", data=b"{}") as stream:
        engine = mtp if mtp.running else batch
        engine.events.put_nowait("before")
        assert await stream.content.readuntil(b"\n\n") == b"data: before\n\n"
        async with stage.clients(8) as steady:
            for _ in range(3):
                before = stage.haproxy.worker()
                stage.haproxy.reload()
                await until(lambda: stage.haproxy.worker() != before, 5)  # noqa: B023
                await steady.more(30, 8)
            engine.events.put_nowait("after")
            assert await stream.content.readuntil(b"\n\n") == b"data: after\n\n"
            engine.events.put_nowait(None)
            assert await stream.content.read() == b"data: [DONE]\n\n"
    steady.assert_each_answered_once(mtp, batch)
    assert stage.agent.ready


async def test_a_change_among_a_hundred_replicas_is_there_within_half_a_second(new_stage) -> None:
    stage = await new_stage(replicas=MOST_REPLICAS)
    stage.limits.limit = 2
    addresses = [fresh_address() for _ in range(100)]

    def pods(gone: int | None) -> list[Any]:
        return [
            pod(f"chat-r{number}", address, mode="mtp" if number < 50 else "batch", serving=number != gone)
            for number, address in enumerate(addresses)
        ]

    async def taking() -> int:
        pool = await stage.haproxy.admin.pool()
        return sum(server.state is ServerState.READY for server in (*pool.servers, *pool.lane))

    stage.say(*pods(None))

    async def all_there() -> bool:
        return await taking() == 100

    async def one_gone() -> bool:
        return await taking() == 99

    await until(all_there, 5)
    seconds = []
    for number in range(20):
        for gone, there in ((5 * number, one_gone), (None, all_there)):
            began = time.monotonic()
            stage.say(*pods(gone))
            await until(there)
            seconds.append(time.monotonic() - began)
    assert quantiles(seconds, n=100, method="inclusive")[98] < 0.5, seconds
