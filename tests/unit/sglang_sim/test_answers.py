"""Answers: exact token counts, markers, usage and the wording of events."""

import asyncio
import json
from typing import Any

import pytest

from tests.unit.sglang_sim.running import Running, running

CHAT = {"messages": [{"role": "user", "content": "please echo marker:M-7 for me"}]}


async def _events(sim: Running, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with sim.session.post(sim.url + path, json={**body, "stream": True}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        lines = [line for line in (await response.text()).split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@pytest.mark.parametrize("words", ["", "--speculative-algorithm NEXTN"])
@pytest.mark.parametrize("tokens", [1, 2, 3, 57, 400])
async def test_a_chat_answer_has_exactly_its_tokens(words, tokens):
    async with running(words, time_scale=20) as sim:
        _, whole = await sim.post("/v1/chat/completions", {**CHAT, "max_tokens": tokens})
        events = await _events(sim, "/v1/chat/completions", {**CHAT, "max_tokens": tokens, "stream_options": {"include_usage": True}})
        text = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
        assert text == whole["choices"][0]["message"]["content"]
        assert len(text.split()) == tokens
        assert text.startswith("marker:M-7")
        assert text.endswith("marker:M-7")
        assert events[0]["choices"][0]["delta"]["role"] == "assistant"
        assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"
        assert events[-1]["choices"] == []
        assert events[-1]["usage"] == whole["usage"]
        assert whole["usage"]["completion_tokens"] == tokens
        assert whole["usage"]["prompt_tokens"] == 5


async def test_one_event_carries_several_steps_when_steps_are_short():
    async with running("--stream-interval 1", time_scale=50, min_event_seconds=0.1) as sim:
        events = await _events(sim, "/v1/completions", {"prompt": "x", "max_tokens": 2000})
        texts = [choice["text"] for event in events for choice in event["choices"]]
        assert sum(len(text.split()) for text in texts) == 2000
        assert len(texts) < 20


async def test_the_stream_interval_is_kept():
    async with running("--stream-interval 8", min_event_seconds=0.0) as sim:
        events = await _events(sim, "/v1/completions", {"prompt": "x", "max_tokens": 40})
        assert [len(choice["text"].split()) for event in events for choice in event["choices"]][:4] == [1, 8, 8, 8]


async def test_generate_streams_the_text_so_far():
    async with running(min_event_seconds=0.02) as sim:
        events = await _events(sim, "/generate", {"text": "marker:G", "sampling_params": {"max_new_tokens": 12}})
        assert [event["text"] for event in events] == [events[-1]["text"][: len(event["text"])] for event in events]
        assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 12}
        assert events[-1]["meta_info"]["completion_tokens"] == len(events[-1]["output_ids"]) == 12


async def test_end_of_sequence_stops_early_unless_it_is_ignored():
    async with running(eos=0.2, time_scale=20) as sim:
        answers = [(await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 200}))[1] for _ in range(3)]
        assert all(answer["choices"][0]["finish_reason"] == "stop" for answer in answers)
        assert all(answer["usage"]["completion_tokens"] < 200 for answer in answers)
        _, full = await sim.post("/v1/completions", {"prompt": "x", "max_tokens": 200, "ignore_eos": True})
        assert (full["usage"]["completion_tokens"], full["choices"][0]["finish_reason"]) == (200, "length")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "x", "max_tokens": 0}),
        ("/v1/completions", {"prompt": "x", "n": 2}),
        ("/v1/completions", {}),
        ("/v1/completions", {"prompt": "x", "max_tokens": 2048}),
        ("/v1/completions", {"prompt": list(range(2100))}),
        ("/v1/chat/completions", {"messages": []}),
        ("/generate", {"text": "x", "sampling_params": []}),
        ("/generate", [1]),
    ],
)
async def test_a_bad_request_is_told_why(path, body):
    async with running("--context-length 2048") as sim:
        status, answer = await sim.post(path, body)
        assert status == 400
        assert answer["message"]
        assert sim.server.scheduler.in_flight == 0


@pytest.mark.parametrize(("kind", "leaks"), [(None, False), ("swap", True), ("merge", True)])
async def test_a_leak_between_rows_shows_in_the_markers(kind, leaks):
    async with running(time_scale=5) as sim:
        await sim.post("/sim/faults", {"rows": kind})
        bodies = [{"prompt": f"marker:ROW{index}", "max_tokens": 100} for index in range(4)]
        answers = await asyncio.gather(*(sim.post("/v1/completions", body) for body in bodies))
        others = [
            any(f"marker:ROW{other}" in answer["choices"][0]["text"] for other in range(4) if other != index)
            for index, (_, answer) in enumerate(answers)
        ]
        assert any(others) is leaks


async def test_a_truncated_row_lacks_its_closing_marker():
    async with running(time_scale=5) as sim:
        await sim.post("/sim/faults", {"rows": "truncate"})
        _, answer = await sim.post("/v1/completions", {"prompt": "marker:T", "max_tokens": 300})
        assert answer["usage"]["completion_tokens"] < 300
        assert not answer["choices"][0]["text"].endswith("marker:T")
