"""Targets as they are written, and engines as they describe themselves."""

import json
from pathlib import Path

import pytest

from mtpilot.bench.describing import engine_of, flags_of_both, parse_target
from mtpilot.evidence.environment import Engine
from mtpilot.render.flags_digest import arguments_sha256

RECORDED = Path(__file__).parents[2] / "contract" / "recordings" / "sglang-0.5.23" / "server_info-batch.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h:1/", ("", "direct", "http://h:1")),
        ("mtp=http://h:1", ("mtp", "direct", "http://h:1")),
        ("mixed@gateway=https://h/a", ("mixed", "gateway", "https://h/a")),
    ],
)
def test_targets(text, expected):
    found = parse_target(text)
    assert (found.mode, found.route, found.url) == expected


@pytest.mark.parametrize("text", ["h:1", "fast=http://h", "mtp@=http://h", "ftp://h"])
def test_what_is_no_target_is_refused(text):
    with pytest.raises(ValueError, match=r"neither URL|the mode is one of"):
        parse_target(text)


def test_an_engines_own_words_without_its_keys():
    info = {**json.loads(RECORDED.read_text()), "api_key": "s3cret", "launch_command": "sglang serve m --api-key s3cret --tp-size 2"}
    engine = engine_of(info, parse_target("batch=http://h:1"), model="m", hardware_class="x1")
    assert "s3cret" not in json.dumps([engine.server_info, engine.arguments, engine.launch_command])
    assert engine.engine == f"sglang {info['version']}"
    assert "internal_states" not in engine.arguments
    assert engine.hardware_class == "x1"


def test_the_digest_of_both_modes_is_a_profiles_whatever_the_spelling():
    def engine(mode: str, command: str) -> Engine:
        return engine_of({"launch_command": command, "version": "1"}, parse_target(f"{mode}=http://h:1"), model="m")

    both = [
        engine("mtp", "sglang serve m --port 1 --tensor-parallel-size 2 --speculative-algorithm NEXTN"),
        engine("batch", "x --tp-size=2"),
    ]
    expected = {"mtp": ["--speculative-algorithm", "NEXTN", "--tp-size", "2"], "batch": ["--tp-size", "2"]}
    assert flags_of_both(both) == arguments_sha256(expected)
    assert flags_of_both(both[:1]) is None
