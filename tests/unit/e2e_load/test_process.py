"""The generator's process against a server that answers rightly, wrongly, late or not at all."""

import asyncio
import time
from typing import Any

import pytest

from e2e.load import Outcome, Request, Schedule, background_load, run_load, steady
from e2e.load.__main__ import main
from e2e.load.exchange import parse_target, request_bytes
from tests.unit.e2e_load.conftest import chunked, serving, whole_answer


async def test_every_request_is_sent_once_to_the_targets_in_turn(right, tmp_path):
    seen: list[dict[str, Any]] = []
    async with serving(right) as one, serving(right) as two:
        schedule = steady(per_second=100, seconds=0.5, output_tokens=9)
        result = await run_load(schedule, [one.url, two.url], model="m", directory=tmp_path, on_counters=seen.append)
    count = len(schedule.requests)
    assert (result.sent, result.completed, result.failed, result.incomplete, result.marker_leaks) == (count, count, 0, 0, 0)
    assert abs(one.requests - two.requests) <= 1
    assert len({*one.markers, *two.markers}) == count
    assert {record.served_by["x-mtpilot-replica"] for record in result.records} == {"chat-r0"}
    assert seen[-1]["completed"] == count
    assert seen[-1]["output_tokens"] == 9 * count
    assert result.cpu_seconds > 0
    assert (tmp_path / "records.jsonl").is_file()


async def test_arrivals_follow_the_schedule_and_not_the_answers(right):
    schedule = Schedule(requests=tuple(Request(at_seconds=at / 20, input_tokens=5, output_tokens=4) for at in range(20)))
    async with serving(right, delay_seconds=0.6) as server:
        result = await run_load(schedule, [server.url], model="m")
    sent = sorted(record.sent_at for record in result.records)
    assert sent[-1] - sent[0] == pytest.approx(0.95, abs=0.3)
    assert result.peak_in_flight >= 10
    assert result.mean_latency_seconds == pytest.approx(0.6, abs=0.3)
    assert result.p99_latency_seconds >= result.p50_latency_seconds >= 0.6


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (lambda marker, tokens: chunked(whole_answer("[[marker=other]]", tokens)), Outcome.LEAKED),
        (lambda marker, tokens: chunked(whole_answer(marker, tokens)[:-2], close=False), Outcome.INCOMPLETE),
        (lambda marker, tokens: b"HTTP/1.1 503 Service Unavailable\r\n\r\n", Outcome.FAILED),
    ],
)
async def test_wrong_answers_are_counted_as_such(answer, outcome):
    schedule = steady(per_second=20, seconds=0.5, output_tokens=6)
    async with serving(answer) as server:
        result = await run_load(schedule, [server.url], model="m")
    assert result.count(outcome) == result.sent == len(schedule.requests)
    assert len(result.problems()) == 5
    assert result.output_tokens_per_second == 0


async def test_nobody_there_and_no_answer_are_failures(right):
    schedule = Schedule(requests=(Request(at_seconds=0, input_tokens=1, output_tokens=1),))
    result = await run_load(schedule, ["http://127.0.0.1:9"], model="m")
    assert result.failed == 1
    assert "cannot connect" in result.records[0].error
    async with serving(right, delay_seconds=3) as server:
        result = await run_load(schedule, [server.url], model="m", timeout_seconds=0.3)
    assert result.failed == 1
    assert "no whole answer within" in result.records[0].error


async def test_background_clients_work_until_told_to_stop(right):
    async with serving(right, delay_seconds=0.05) as server, background_load([server.url], clients=8, model="m") as load:
        await load.wait_completed(40)
        assert load.counters["in_flight"] <= 8
    assert load.result is not None
    assert load.result.completed == load.result.sent >= 40
    assert load.result.peak_in_flight <= 8


async def give_up_under_load(url: str) -> None:
    async with background_load([url], clients=2, model="m") as load:
        await load.wait_completed(2)
        raise RuntimeError("the test gave up")


async def test_the_generator_ends_with_the_one_who_asked(right):
    started = time.monotonic()
    async with serving(right) as server:
        with pytest.raises(RuntimeError, match="the test gave up"):
            await give_up_under_load(server.url)
        await asyncio.sleep(0.1)
        sent = server.requests
        await asyncio.sleep(0.3)
        assert server.requests == sent
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("url", ["http://192.0.2.1:80", "https://127.0.0.1:80", "http://localhost:80", "http://127.0.0.1", "nonsense"])
async def test_load_goes_to_loopback_only(url):
    with pytest.raises(ValueError, match="127"):
        await run_load(steady(per_second=1, seconds=1), [url], model="m")


async def test_clients_and_time_are_bounded():
    for clients, seconds in ((0, 1), (513, 1), (1, 901)):
        with pytest.raises(ValueError, match="clients for at most"):
            async with background_load(["http://127.0.0.1:1"], clients=clients, max_seconds=seconds, model="m"):
                pass


def test_a_request_has_its_tokens_as_words():
    target = parse_target("http://127.1.2.3:8080")
    raw = request_bytes(target, model="m", marker="x-1", input_tokens=50, output_tokens=7).decode()
    head, _, body = raw.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    prompt = body.split('"content":"')[1].split('"')[0]
    assert prompt.startswith("[[marker=x-1]] ")
    assert len(prompt.split()) == 50


def test_the_process_says_how_it_is_called(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["e2e.load", "--help"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert "PLAN.json RECORDS.jsonl" in capsys.readouterr().out
