"""Bad input gets the right status, never reaches an engine, and disturbs nobody: one table, run under the load of others."""

import asyncio
import io
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.gateway.raw import raw
from tests.integration.gateway.stage import until
from tests.unit.gateway.pods import pod

HOST = b"Host: chat\r\n"
CLOSE = b"Connection: close\r\n"
POST = b"POST /v1/chat/completions?marker=bad HTTP/1.1\r\n" + HOST
ADMIN_PATHS = (
    "abort_request",
    "clear_hicache_storage_backend",
    "close_session",
    "configure_logging",
    "continue_generation",
    "flush_cache",
    "freeze_gc",
    "generate",
    "get_load",
    "health_generate",
    "init_weights_update_group",
    "load_lora_adapter",
    "metrics",
    "open_session",
    "pause_generation",
    "release_memory_occupation",
    "resume_memory_occupation",
    "server_info",
    "set_internal_state",
    "start_profile",
    "stop_profile",
    "unload_lora_adapter",
    "update_weights_from_disk",
    "update_weights_from_tensor",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`parts` are sent with a pause between them; `statuses` of all answers, in order."""

    name: str
    parts: tuple[bytes, ...]
    statuses: tuple[int, ...]
    pause_seconds: float = 0.0


def get(target: bytes, *headers: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + HOST + CLOSE + b"".join(headers) + b"\r\n"


def case(name: str, statuses: int | tuple[int, ...], *parts: bytes, pause: float = 0.0) -> Case:
    return Case(name=name, parts=parts, statuses=(statuses,) if isinstance(statuses, int) else statuses, pause_seconds=pause)


ELEVEN_MB = 11 * 10**6
HIDDEN = b"GET /flush_cache HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"

CASES = [
    *(case(f"admin /{path}", 404, get(f"/{path}".encode())) for path in ADMIN_PATHS),
    case("admin by climbing", 404, get(b"/v1/../flush_cache")),
    case("admin by escaped climbing", 404, get(b"/v1/%2e%2e/flush_cache")),
    case("admin by half-escaped climbing", 404, get(b"/v1/.%2e/flush_cache")),
    case("admin by twice-escaped slash", 404, get(b"/v1/..%2fflush_cache")),
    case("admin by double slash", 404, get(b"//v1/flush_cache")),
    case("admin by absolute URI", 404, b"GET http://chat/flush_cache HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"),
    case("unknown path", 404, get(b"/unknown")),
    case("no path", 404, get(b"*")),
    case("upper case", 404, get(b"/V1/models")),
    case("11 MB body", 413, POST + CLOSE + b"Content-Length: %d\r\n\r\n" % ELEVEN_MB),
    case("huge length", 413, POST + CLOSE + b"Content-Length: 9223372036854775807\r\n\r\n"),
    case("length of 32 bits", 413, POST + CLOSE + b"Content-Length: 4294967297\r\n\r\n"),
    case("length that is no number", 400, POST + CLOSE + b"Content-Length: 1e3\r\n\r\n"),
    case("negative length", 400, POST + CLOSE + b"Content-Length: -1\r\n\r\n"),
    case("POST without length", 411, POST + CLOSE + b"\r\n"),
    case("chunked", 411, POST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    case("malformed chunks", 400, POST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
    case("smuggling CL.TE", 411, POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN),
    case("smuggling TE.TE", 400, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + HIDDEN),
    case("smuggling TE spelled oddly", 400, POST + b"Content-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN),
    case("smuggling two lengths", 400, POST + b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + HIDDEN),
    case("smuggling length with a sign", 400, POST + b"Content-Length: +0\r\n\r\n" + HIDDEN),
    case("smuggling by a bare line feed", 411, POST + b"X: a\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN),
    case("header of 20 KB", 400, get(b"/v1/models", b"X: " + b"x" * 20_000 + b"\r\n")),
    case("200 headers", 400, get(b"/v1/models", *(b"X-%d: x\r\n" % number for number in range(200)))),
    case("path of 20 KB", 400, get(b"/v1/" + b"x" * 20_000)),
    case("header without colon", 400, get(b"/v1/models", b"no colon\r\n")),
    case("control byte in a header", 400, get(b"/v1/models", b"X: a\x00b\r\n")),
    case("space in the path", 400, b"GET /v1/mo dels HTTP/1.1\r\n" + HOST + b"\r\n"),
    case("no HTTP at all", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"),
    case("slow header", 408, *[b"GET /v1/models HTTP/1.1\r\n", *[b"X: a\r\n"] * 20], pause=0.2),
    case("slow body", 408, *[POST + CLOSE + b"Content-Length: 100\r\n\r\n", *[b"x"] * 20], pause=0.2),
]


@pytest.fixture
async def short_stage(new_stage):
    """A gateway that waits a second for a request, not ten."""
    return await new_stage(change=lambda config: config.replace("10s", "1s"))


async def test_bad_input_gets_its_status_and_disturbs_nobody(short_stage, new_engine) -> None:
    stage, engine = short_stage, await new_engine(answers=True)
    stage.say(pod(address=engine.address, slots=64))
    await stage.until_ready(engine.address)
    stop = asyncio.Event()
    others: list[Any] = []

    async def other() -> None:
        while not stop.is_set():
            others.append((await stage.post(f"good-{len(others)}")).status)
            await asyncio.sleep(0.01)

    good = [asyncio.create_task(other()) for _ in range(3)]
    replies = await asyncio.gather(*(raw(stage.haproxy.address, *item.parts, pause_seconds=item.pause_seconds) for item in CASES))
    stop.set()
    await asyncio.gather(*good)
    wrong = {item.name: reply.statuses for item, reply in zip(CASES, replies, strict=True) if reply.statuses != item.statuses}
    assert not wrong
    assert engine.paths == [], "something bad reached the engine"
    assert not [marker for marker in engine.received if not marker.startswith("good-")]
    assert len(others) > 20
    assert set(others) == {200}
    plain = {item.name: reply.text for item, reply in zip(CASES, replies, strict=True) if '{"error":{"message":' not in reply.text}
    # NB: what is not HTTP at all never gets as far as the texts of the configuration.
    assert {name for name, text in plain.items() if not text.startswith("HTTP/1.1 400")} <= {"slow header"}


async def test_ten_megabytes_pass_and_eleven_do_not(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    assert (await stage.post("large", data=io.BytesIO(b"x" * 10_000_000))).body["bytes"] == 10_000_000
    reply = await raw(stage.haproxy.address, POST + CLOSE + b"Content-Length: %d\r\n\r\n" % ELEVEN_MB, *[b"x" * 2**20] * 11)
    assert reply.statuses in {(413,), ()}, "who does not look up before all is sent may only see the connection end"
    assert len(engine.received) == 1


async def test_a_long_silent_answer_is_not_cut_by_the_clients_limit(new_stage, new_engine) -> None:
    stage = await new_stage(change=lambda config: config.replace("timeout client 300s", "timeout client 1s"))
    engine = await new_engine()
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    silent = asyncio.create_task(stage.post("silent"))
    async with stage.session.post(f"{stage.haproxy.url}/v1/stream", data=b"{}") as response:
        await asyncio.sleep(2.5)
        engine.events.put_nowait("late")
        assert await response.content.readuntil(b"\n\n") == b"data: late\n\n"
        await asyncio.sleep(2.5)
        engine.events.put_nowait(None)
        assert await response.content.read() == b"data: [DONE]\n\n"
    engine.gate.set()
    assert (await silent).status == 200


async def test_a_slow_body_takes_no_slot(short_stage, new_engine) -> None:
    stage, engine = short_stage, await new_engine(answers=True)
    stage.say(pod(address=engine.address, slots=1))
    await stage.until_ready(engine.address)
    slow = [asyncio.create_task(raw(stage.haproxy.address, POST + b"Content-Length: 9\r\n\r\n", b"x")) for _ in range(5)]
    await asyncio.sleep(0.2)
    assert (await asyncio.wait_for(stage.post("quick"), 0.5)).status == 200
    assert {reply.statuses for reply in await asyncio.gather(*slow)} == {(408,)}


async def fill(stage, engine, count: int) -> list[asyncio.Task[Any]]:
    requests = [asyncio.create_task(stage.post(f"first-{number}")) for number in range(count)]
    await until(lambda: engine.running == 1)
    await asyncio.sleep(0.2)
    return requests


async def test_the_queue_is_bounded_for_each_class(new_stage, new_engine) -> None:
    stage, engine = await new_stage(queueLength=4, batchQueueLength=2), await new_engine()
    stage.say(pod(address=engine.address, slots=1))
    await stage.until_ready(engine.address)
    requests = await fill(stage, engine, 3)
    refused = await stage.post("low", x_mtpilot_priority="batch")
    assert (refused.status, refused.body["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["Retry-After"]) > 0
    requests += [asyncio.create_task(stage.post(f"second-{number}")) for number in range(2)]
    await asyncio.sleep(0.2)
    assert (await stage.post("high")).status == 429
    engine.gate.set()
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
    assert (await stage.post("later", x_mtpilot_priority="batch")).status == 200


async def test_batch_requests_wait_behind_interactive_ones(stage, new_engine) -> None:
    engine = await new_engine()
    stage.say(pod(address=engine.address, slots=1))
    await stage.until_ready(engine.address)
    requests = await fill(stage, engine, 1)
    for number in range(3):
        requests.append(asyncio.create_task(stage.post(f"low-{number}", x_mtpilot_priority="batch")))
        await asyncio.sleep(0.05)
    for number in range(3):
        requests.append(asyncio.create_task(stage.post(f"high-{number}", x_mtpilot_priority="interactive")))
        await asyncio.sleep(0.05)
    engine.gate.set()
    await asyncio.gather(*requests)
    assert engine.received == ["first-0", *(f"high-{number}" for number in range(3)), *(f"low-{number}" for number in range(3))]


async def test_what_waits_for_the_first_replica_is_bounded_too(new_stage, new_engine) -> None:
    stage = await new_stage(queueLength=3, batchQueueLength=2)
    stage.say()
    requests = [asyncio.create_task(stage.post(str(number))) for number in range(2)]
    await asyncio.sleep(0.3)
    assert (await stage.post("low", x_mtpilot_priority="batch")).status == 429
    requests.append(asyncio.create_task(stage.post("2")))
    await asyncio.sleep(0.3)
    assert (await stage.post("high")).status == 429
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
