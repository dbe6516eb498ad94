"""Where prompts come from, how long they are, and what is sent."""

import json
import random
from typing import Any

import pytest

from mtpilot.bench.answers import Endpoint
from mtpilot.bench.bodies import body
from mtpilot.bench.composing import Composer
from mtpilot.bench.lengths import read_lengths
from mtpilot.bench.planning import Settings
from mtpilot.bench.prompts import Length, built_in, given
from mtpilot.evidence.records import Sampling
from tests.unit.bench.made import batch, target


def test_the_packaged_set_has_tasks_and_passages_in_each_domain():
    found = built_in()
    assert set(found.domains) == {"code", "prose", "chat", "extraction", "german", "french", "spanish", "chinese"}
    assert all(len(found.tasks[domain]) >= 2 and len(found.passages[domain]) >= 3 for domain in found.domains)


@pytest.mark.parametrize("tokens", [50, 1000, 8000])
def test_a_prompt_is_about_as_long_as_planned_in_every_domain(tokens):
    weights = {"chinese": 0.7, "code": 0.3}
    for number, domain in enumerate(built_in().domains):
        prompt = built_in().prompt(number, tokens, weights, random.Random(number))
        task = max(len(text) for text in built_in().tasks[domain])
        wanted = tokens / weights.get(domain, 0.25)
        assert prompt.domain == domain
        assert wanted * 0.9 - 300 <= len(prompt.text) <= max(wanted, task) * 1.05 + 50


def test_own_prompts_are_sent_as_they_are_and_a_bad_line_is_named():
    found = given('{"prompt": "one"}\n\n{"text": "two", "domain": "x"}\n', "mine.jsonl")
    assert [found.prompt(number, 5, {}, random.Random(0)).text for number in range(3)] == ["one", "two", "one"]
    assert found.domains == ("given", "x")
    for bad, words in (("{", "mine:1"), ('{"prompt": ""}', "no text"), ("", "no prompts"), ("[1]", "mine:1")):
        with pytest.raises(ValueError, match=words):
            given(bad, "mine")


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04,318,800\n",
        "timestamp_ms,input_length,output_length\n0,4808,10\n5,318,800\n",
        '{"timestamp": 0, "input_length": 4808, "output_length": 10}\n{"timestamp": 5, "input_length": 318, "output_length": 800}\n',
    ],
)
def test_lengths_of_each_kind_of_trace(tmp_path, text):
    path = tmp_path / "trace"
    path.write_text(text)
    assert read_lengths(path) == (Length(input_tokens=4808, output_tokens=48), Length(input_tokens=318, output_tokens=800))


@pytest.mark.parametrize(
    ("text", "words"), [("a,b\n1,2\n", "no lengths"), ("input_length,output_length\nx,2\n", "trace:2"), ("", "no requests")]
)
def test_what_is_no_trace_is_said(tmp_path, text, words):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_lengths(path)


def test_modes_get_the_same_prompts_each_with_its_own_marker_and_levels_get_others():
    composer = Composer(run_id="r", settings=Settings(), prompts=built_in())
    mtp, plain = (composer.requests(batch(4, of=target(mode)), "m") for mode in ("mtp", "batch"))
    assert [one.prompt for one in mtp] == [one.prompt for one in plain]
    assert all(one.row.marker in one.prompt and one.row.answer in one.prompt for one in mtp)
    assert len({one.row.marker for one in mtp} | {one.row.marker for one in composer.requests(batch(8), "m")}) == 12
    assert composer.markers([batch(4)]) == {one.row.marker for one in mtp}
    assert len({one.domain for one in mtp}) == 4


def test_bodies_of_the_endpoints():
    def made(endpoint: Endpoint, sampling: Sampling) -> dict[str, Any]:
        return dict(json.loads(body(endpoint, model="m", prompt="p", sampling=sampling, output_tokens=9, whole_length=True)))

    chat = made(Endpoint.CHAT, Sampling.SAMPLED)
    assert chat["messages"] == [{"role": "user", "content": "p"}]
    assert (chat["temperature"], chat["top_p"], chat["top_k"]) == (0.7, 0.95, 20)
    assert (chat["max_tokens"], chat["ignore_eos"], chat["stream_options"]) == (9, True, {"include_usage": True})
    assert made(Endpoint.COMPLETIONS, Sampling.GREEDY)["prompt"] == "p"
    generate = made(Endpoint.GENERATE, Sampling.GREEDY)
    assert generate["sampling_params"] == {"temperature": 0.0, "max_new_tokens": 9, "ignore_eos": True}
