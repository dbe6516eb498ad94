"""Two engines by their own /server_info: drafting is the question, limits are told, anything else is unlike."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mtpilot.evidence import alike
from mtpilot.evidence.alike import Kind, engine_differences, limit_words, run_differences, unlike_words
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.server_info import arguments_of, mode_of, slots_of, without_secrets
from sglang_sim import describe
from tests.unit.evidence.runs import environment, records
from tests.unit.sglang_sim.running import resolve

DRAFTING = "--speculative-algorithm NEXTN --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 2"


def report(words: str) -> dict[str, Any]:
    """The /server_info of an engine with these arguments."""
    scheduler = SimpleNamespace(micro_batch_limit=None, telemetry=SimpleNamespace(gen_throughput=0.0), lifetime_verifies=0)
    return describe.server_info(resolve(words), cast("Any", scheduler), "ready", {})


def engine(words: str) -> Engine:
    info = without_secrets(report(words))
    return Engine(
        mode=mode_of(info), route="direct", url="", engine="sglang 0.5.23", model="m", slots=slots_of(info),
        asked_slots=info["max_running_requests"], launch_command=None, arguments=arguments_of(info), server_info=info, flags_sha256="",
    )  # fmt: skip


def test_two_modes_of_one_service_differ_in_drafting_and_limits_alone() -> None:
    mtp = engine(f"{DRAFTING} --max-running-requests 24 --mem-fraction-static 0.8 --port 3001 --random-seed 1 --api-key mtp-key")
    batch = engine("--max-running-requests 64 --mem-fraction-static 0.85 --port 3000 --random-seed 2 --log-level debug")
    kinds = {difference.field: difference.kind for difference in engine_differences(batch, mtp)}
    assert set(kinds.values()) == {Kind.DRAFTING, Kind.LIMIT}
    assert kinds["arguments.speculative_num_draft_tokens"] is Kind.DRAFTING
    assert unlike_words([mtp, batch]) == []
    (limits,) = limit_words([mtp, batch])
    assert limits.endswith("arguments.max_running_requests: 24 and 64; arguments.mem_fraction_static: 0.8 and 0.85; slots: 24 and 64")


def test_anything_else_is_unlike_and_of_one_mode_drafting_too() -> None:
    mtp, other = engine(DRAFTING), engine(f"{DRAFTING} --tp-size 8 --quantization fp8")
    (words,) = unlike_words([mtp, other])
    assert (
        words
        == 'mtp (direct) and mtp (direct) differ in more than drafting: arguments.quantization: null and "fp8"; arguments.tp_size: 1 and 8'
    )
    steps = engine(DRAFTING.replace("steps 1", "steps 3").replace("tokens 2", "tokens 4"))
    assert {difference.kind for difference in engine_differences(mtp, steps)} == {Kind.UNLIKE}


def test_runs_differ_by_acceptance_and_by_the_load() -> None:
    found = records(levels=(1,), repeats=1)
    assert run_differences(environment(found), environment(found, run_id="other", host={"cpu": 2})) == ()
    words = [difference.words for difference in run_differences(environment(found), environment(found, plan={"seed": 2, "new": 1}))]
    assert words == ["plan.new: null and 1", 'plan.sampling: {"temperature": 0.7} and null', "plan.seed: 1 and 2"]


@pytest.mark.parametrize("names", [alike._WITHOUT_EFFECT, alike._DRAFTING, alike._LIMITS])
def test_the_arguments_that_are_told_apart_are_arguments_of_sglang(names: frozenset[str]) -> None:
    assert names - set(arguments_of(report(""))) == set()


def test_secrets_are_nowhere_in_what_is_kept() -> None:
    info = {
        "api_key": "s3cret",
        "launch_command": "serve --api-key s3cret",
        "internal_states": [{"admin_api_key": "x", "list": ["s3cret"]}],
    }
    assert without_secrets(info) == {
        "api_key": "<redacted>",
        "launch_command": "serve --api-key <redacted>",
        "internal_states": [{"admin_api_key": "<redacted>", "list": ["<redacted>"]}],
    }


@pytest.mark.parametrize(
    "words", ["--api-key k3y", "--admin-api-key=k3y", "--admin-api-key 'k3y and more'", '--ssl-keyfile-password "k3y" --port 1']
)
def test_a_key_in_the_launch_command_is_hidden_though_its_own_field_is_already(words: str) -> None:
    found = without_secrets({"api_key": "<redacted>", "admin_api_key": None, "internal_states": [{"launch_command": f"serve {words}"}]})
    assert "k3y" not in str(found)
    assert ("--port 1" in str(found)) == ("--port 1" in words)


@pytest.mark.parametrize(
    ("states", "slots"),
    [
        (None, None),
        ([], None),
        ([{}], None),
        ([{"effective_max_running_requests_per_dp": 8}] * 2, 16),
        ([{"effective_max_running_requests_per_dp": True}], None),
    ],
)
def test_slots_are_those_of_all_ranks_or_unknown(states: Any, slots: int | None) -> None:
    assert slots_of({"internal_states": states, "max_running_requests": 48}) == slots
