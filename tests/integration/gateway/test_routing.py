"""What HAProxy does with requests under the rendered configuration."""

import asyncio
import io
import time

from tests.integration.gateway.conftest import fresh_address
from tests.integration.gateway.stage import cancel, until
from tests.unit.gateway.pods import pod


async def test_least_connections(stage, new_engine) -> None:
    first, second = await new_engine(), await new_engine()
    stage.say(pod("chat-r0", first.address, slots=10), pod("chat-r1", second.address, slots=10))
    await stage.until_ready(first.address, second.address)
    requests = []
    for number in range(6):
        requests.append(asyncio.create_task(stage.post(str(number))))
        await until(lambda: first.running + second.running == number + 1)  # noqa: B023
    assert (first.running, second.running) == (3, 3)
    first.gate.set()
    second.gate.set()
    answers = await asyncio.gather(*requests)
    assert [answer.body["marker"] for answer in answers] == [str(number) for number in range(6)]
    assert {answer.headers["x-mtpilot-replica"] for answer in answers} == {"r0", "r1"}


async def test_no_more_than_the_slots_reach_an_engine(stage, new_engine) -> None:
    engine = await new_engine()
    stage.say(pod(address=engine.address, slots=2))
    await stage.until_ready(engine.address)
    requests = [asyncio.create_task(stage.post(str(number))) for number in range(7)]
    await until(lambda: engine.running == 2)
    await asyncio.sleep(0.2)
    assert engine.most == 2
    engine.gate.set()
    answers = await asyncio.gather(*requests)
    assert all(answer.status == 200 for answer in answers)
    assert engine.most == 2
    assert sorted(engine.received) == sorted(str(number) for number in range(7))


async def test_the_queue_ends_with_an_openai_error(new_stage, new_engine) -> None:
    stage, engine = await new_stage(queue_timeout="1s"), await new_engine()
    stage.say(pod(address=engine.address, slots=1))
    await stage.until_ready(engine.address)
    taken = asyncio.create_task(stage.post("taken"))
    await until(lambda: engine.running == 1)
    refused = await stage.post("refused")
    assert refused.status == 503
    assert refused.body["error"]["code"] == "no_replica"
    assert set(refused.body["error"]) == {"message", "type", "param", "code"}
    assert int(refused.headers["Retry-After"]) > 0
    engine.gate.set()
    assert (await taken).status == 200
    assert engine.received == ["taken"]


async def test_requests_wait_while_there_is_no_replica(stage, new_engine) -> None:
    requests = [asyncio.create_task(stage.post(str(number), data=b"x" * 200_000)) for number in range(8)]
    await asyncio.sleep(1.0)
    assert not any(request.done() for request in requests)
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address, slots=3))
    began = time.monotonic()
    answers = await asyncio.gather(*requests)
    assert time.monotonic() - began < 2.0
    assert all(answer.status == 200 and answer.body["bytes"] == 200_000 for answer in answers)
    assert sorted(engine.received) == sorted(str(number) for number in range(8))
    assert engine.most <= 3


async def test_waiting_without_a_replica_ends_after_the_queue_time(new_stage) -> None:
    stage = await new_stage(queue_timeout="2s")
    began = time.monotonic()
    answer = await stage.post("lost")
    assert answer.status == 503
    assert 1.5 < time.monotonic() - began < 4.0
    assert answer.body["error"]["code"] == "no_replica"


async def test_queued_requests_outlive_the_replica_they_waited_for(stage, new_engine) -> None:
    """In-place flip of the only replica, full and with a queue: the queue goes to the next one."""
    old, new = await new_engine(), await new_engine(answers=True)
    stage.say(pod(address=old.address, slots=2))
    await stage.until_ready(old.address)
    requests = [asyncio.create_task(stage.post(str(number))) for number in range(6)]
    await until(lambda: old.running == 2)
    stage.say(pod(address=old.address, slots=2, serving=False))
    await stage.until_ready()
    late = asyncio.create_task(stage.post("late"))
    old.gate.set()
    await until(lambda: old.running == 0)
    await asyncio.sleep(0.3)
    stage.say()
    assert len(old.received) == 2, "a draining engine got a queued request"
    stage.say(pod(address=new.address, slots=2))
    answers = await asyncio.gather(*requests, late)
    assert all(answer.status == 200 for answer in answers)
    assert len(old.received) + len(new.received) == 7


async def test_drain_keeps_streams_and_sends_nothing_new(stage, new_engine) -> None:
    old, new = await new_engine(answers=True), await new_engine(answers=True)
    stage.say(pod("chat-r0", old.address))
    await stage.until_ready(old.address)
    async with stage.session.post(f"{stage.haproxy.url}/v1/stream", params={"marker": "stream"}) as response:
        old.events.put_nowait("one")
        assert await response.content.readuntil(b"\n\n") == b"data: one\n\n"
        stage.say(pod("chat-r0", old.address, serving=False), pod("chat-r1", new.address))
        await stage.until_ready(new.address)
        for number in range(5):
            assert (await stage.post(str(number))).body["by"] == new.address
        stage.say(pod("chat-r0", old.address, terminating=True), pod("chat-r1", new.address))
        old.events.put_nowait("two")
        assert await response.content.readuntil(b"\n\n") == b"data: two\n\n"
        stage.say(pod("chat-r1", new.address))
        await until(lambda: _gone(stage, old.address))
        old.events.put_nowait(None)
        assert await response.content.read() == b"data: [DONE]\n\n"
    assert old.received == ["stream"]


async def _gone(stage, address: str) -> bool:
    return address not in await stage.servers()


async def test_events_are_not_buffered(stage, new_engine) -> None:
    engine = await new_engine()
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    async with stage.session.post(f"{stage.haproxy.url}/v1/stream") as response:
        for number in range(20):
            began = time.monotonic()
            engine.events.put_nowait(str(number))
            async with asyncio.timeout(2):
                assert await response.content.readuntil(b"\n\n") == f"data: {number}\n\n".encode()
            assert time.monotonic() - began < 0.5
        engine.events.put_nowait(None)
        await response.read()


async def test_a_client_that_leaves_frees_its_slot(stage, new_engine) -> None:
    engine = await new_engine()
    stage.say(pod(address=engine.address, slots=1))
    await stage.until_ready(engine.address)
    running, queued = asyncio.create_task(stage.post("running")), None
    await until(lambda: engine.running == 1)
    queued = asyncio.create_task(stage.post("queued"))
    await asyncio.sleep(0.2)
    await cancel(queued)
    await cancel(running)
    await until(lambda: engine.aborted == ["running"])
    engine.gate.set()
    assert (await stage.post("next")).status == 200
    assert engine.received == ["running", "next"], "a request whose client had left reached the engine"


async def test_a_client_that_leaves_a_stream_ends_it_in_the_engine(stage, new_engine) -> None:
    engine = await new_engine()
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    async with stage.session.post(f"{stage.haproxy.url}/v1/stream", params={"marker": "left"}) as response:
        engine.events.put_nowait("one")
        await response.content.readuntil(b"\n\n")
        response.close()
    await until(lambda: engine.aborted == ["left"])


async def test_what_an_engine_has_seen_is_never_repeated(stage, new_engine) -> None:
    broken, other = await new_engine(), await new_engine(answers=True)
    broken.break_off = True
    stage.say(pod("chat-r0", broken.address), pod("chat-r1", other.address))
    await stage.until_ready(broken.address, other.address)
    answers = [await stage.post(str(number)) for number in range(6)]
    assert len(broken.received) + len(other.received) == 6
    assert not set(broken.received) & set(other.received)
    failed = [answer for answer in answers if answer.status != 200]
    assert len(failed) == len(broken.received) > 0
    assert all(answer.status == 502 and answer.body["error"]["code"] == "replica_failed" for answer in failed)


async def test_a_replica_that_does_not_accept_is_passed_by(stage, new_engine) -> None:
    dead, engine = fresh_address(), await new_engine(answers=True)
    stage.say(pod("chat-r0", dead), pod("chat-r1", engine.address, slots=50))
    await stage.until_ready(dead, engine.address)
    answers = await asyncio.gather(*(stage.post(str(number)) for number in range(20)))
    assert all(answer.status == 200 for answer in answers)
    assert sorted(engine.received) == sorted(str(number) for number in range(20))


async def test_only_v1_is_served(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    for path in ("/", "/flush_cache", "/metrics", "/v1", "/v2/x", "/v1/../flush_cache", "/v1/%2e%2e/flush_cache", "/v1/%2E./x"):
        answer = await stage.get(path)
        assert answer.status == 404, path
        assert '"code":"not_found"' in answer.body
    assert engine.paths == []
    assert (await stage.get("/v1/models")).status == 200
    assert (await stage.get("/healthz")).status == 200
    assert engine.paths == ["/v1/models"]


async def test_a_large_prompt_passes(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    assert (await stage.post("large", data=io.BytesIO(b"x" * 10_000_000))).body["bytes"] == 10_000_000


async def test_metrics_show_what_waits_and_what_runs(stage, new_engine) -> None:
    engine = await new_engine()
    stage.say(pod(address=engine.address, slots=2))
    await stage.until_ready(engine.address)
    requests = [asyncio.create_task(stage.post(str(number))) for number in range(5)]
    await until(lambda: engine.running == 2)
    await asyncio.sleep(0.1)
    lines = (await stage.get("/metrics", port=8405)).body.splitlines()
    assert 'haproxy_backend_current_sessions{proxy="engines"} 5' in lines
    assert 'haproxy_backend_current_queue{proxy="engines"} 3' in lines
    assert 'haproxy_server_current_sessions{proxy="engines",server="r0"} 2' in lines
    assert not any('server="r7"' in line for line in lines), "servers in maintenance are not worth their series"
    engine.gate.set()
    await asyncio.gather(*requests)


async def test_the_agent_tells_how_many_of_each_class_wait_and_for_how_long(stage, new_engine) -> None:
    """Also while there is no replica, where HAProxy's own queue is empty."""
    assert waiting(stage) == {"interactive": (0, 0), "batch": (0, 0)}
    requests = [asyncio.create_task(stage.post(str(number))) for number in range(3)]
    await until(lambda: lengths(stage) == {"interactive": 3, "batch": 0}, 4)
    requests += [asyncio.create_task(stage.post(str(number), x_mtpilot_priority="Batch")) for number in range(3, 5)]
    await until(lambda: lengths(stage) == {"interactive": 3, "batch": 2}, 4)
    await until(lambda: waiting(stage)["interactive"][1] > waiting(stage)["batch"][1] >= 1, 4)
    engine = await new_engine()
    stage.say(pod(address=engine.address, slots=1))
    await until(lambda: engine.running == 1, 4)
    await until(lambda: lengths(stage) == {"interactive": 2, "batch": 2}, 4)
    engine.gate.set()
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
    await until(lambda: waiting(stage) == {"interactive": (0, 0), "batch": (0, 0)}, 4)


def waiting(stage) -> dict[str, tuple[float, float]]:
    """Class → requests, seconds."""
    metrics = stage.agent.metrics
    return {
        name: (metrics.waiting.labels(name)._value.get(), metrics.waiting_seconds.labels(name)._value.get())
        for name in ("interactive", "batch")
    }


def lengths(stage) -> dict[str, float]:
    return {name: number for name, (number, _) in waiting(stage).items()}
