"""Arguments become numbers, or an error that names the flag."""

from __future__ import annotations

import pytest

from mtpilot.capacity import launch
from mtpilot.capacity.errors import NotCovered
from mtpilot.capacity.launch import Flags, Launch, Speculation, launch_from_flags
from mtpilot.render.known_flags import KNOWN_FLAGS

NEXTN: Flags = {"--speculative-algorithm": "NEXTN", "--speculative-num-steps": "3", "--speculative-eagle-topk": "1"}


def test_nothing_given_is_the_engines_default() -> None:
    assert launch_from_flags({}) == Launch()
    assert launch_from_flags({"--model-path": "m", "--enable-metrics": None}) == Launch()


def test_what_is_given_is_read() -> None:
    found = launch_from_flags(
        {
            "--tp-size": "4",
            "--max-running-requests": "128",
            "--mem-fraction-static": "0.85",
            "--mamba-ssm-dtype": "bfloat16",
            "--mamba-radix-cache-strategy": "extra_buffer_lazy",
            "--disable-radix-cache": None,
        }
    )
    assert (found.tp_size, found.requested_slots, found.mem_fraction_static) == (4, 128, 0.85)
    assert (found.mamba_ssm_dtype, found.mamba_radix_cache_strategy, found.disable_radix_cache) == (
        "bfloat16",
        "extra_buffer_lazy",
        True,
    )


@pytest.mark.parametrize(
    ("flags", "slots"),
    [({}, None), (NEXTN, 48), ({**NEXTN, "--max-running-requests": "96"}, 96), ({"--max-running-requests": "96"}, 96)],
)
def test_speculation_stops_at_48_by_itself(flags: Flags, slots: int | None) -> None:
    assert launch_from_flags(flags).requested_slots == slots


def test_with_top_k_1_draft_tokens_follow_the_steps() -> None:
    found = launch_from_flags({**NEXTN, "--speculative-num-draft-tokens": "9"}).speculation
    assert found == Speculation(num_steps=3, eagle_topk=1, num_draft_tokens=4)
    assert found.reserved_tokens == 8


def test_a_tree_of_drafts_reserves_steps_times_top_k() -> None:
    flags = {**NEXTN, "--speculative-eagle-topk": "4", "--speculative-num-draft-tokens": "8"}
    found = launch_from_flags(flags).speculation
    assert found is not None
    assert (found.num_draft_tokens, found.reserved_tokens) == (8, 24)


def test_adaptive_and_draft_path_are_kept() -> None:
    flags = {**NEXTN, "--speculative-adaptive": None, "--speculative-draft-model-path": "x", "--speculative-adaptive-config": "t.json"}
    found = launch_from_flags(flags).speculation
    assert found is not None
    assert (found.adaptive, found.draft_path, found.own_table) == (True, True, True)


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ({"--tp-size": "four"}, "--tp-size"),
        ({"--tp-size": "0"}, "--tp-size"),
        ({"--tp-size": None}, "--tp-size"),
        ({"--mem-fraction-static": "1"}, "--mem-fraction-static"),
        ({"--mem-fraction-static": "nan"}, "--mem-fraction-static"),
        ({"--mamba-full-memory-ratio": "x"}, "--mamba-full-memory-ratio"),
        ({"--kv-cache-dtype": None}, "--kv-cache-dtype"),
        ({"--mamba-ssm-dtype": "fp8"}, "--mamba-ssm-dtype"),
        ({"--mamba-radix-cache-strategy": "v2"}, "--mamba-radix-cache-strategy"),
        ({"--pp-size": "2"}, "--pp-size"),
        ({"--attn-dp-size": "8"}, "--attn-dp-size"),
        ({"--cpu-offload-gb": "4"}, "--cpu-offload-gb"),
        ({"--enable-unified-memory": None}, "--enable-unified-memory"),
        ({"--enable-linear-replayssm-spec": None}, "--enable-linear-replayssm-spec"),
        ({"--disaggregation-mode": "decode"}, "--disaggregation-mode"),
        ({"--speculative-algorithm": "DFLASH"}, "--speculative-algorithm"),
        ({"--speculative-algorithm": "NEXTN"}, "--speculative-num-steps"),
        ({**NEXTN, "--speculative-eagle-topk": "2"}, "--speculative-num-draft-tokens"),
    ],
)
def test_what_the_formulas_do_not_describe_is_refused(flags: Flags, field: str) -> None:
    with pytest.raises(NotCovered) as caught:
        launch_from_flags(flags)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"--mem-fraction-static": "1"}, "must be above 0 and below 1, not 1"),
        ({"--mem-fraction-static": "150"}, "must be above 0 and below 1, not 150"),
        ({"--mamba-full-memory-ratio": "150"}, "must be above 0 and below 100, not 150"),
        ({"--mamba-full-memory-ratio": "0"}, "must be above 0 and below 100, not 0"),
    ],
)
def test_a_number_out_of_bounds_is_told_both(flags: Flags, words: str) -> None:
    with pytest.raises(NotCovered) as caught:
        launch_from_flags(flags)
    assert caught.value.problem == words


@pytest.mark.parametrize("flags", [{"--pp-size": "1"}, {"--cpu-offload-gb": "0"}, {"--disaggregation-mode": "null"}])
def test_a_layout_flag_with_its_default_is_no_trouble(flags: Flags) -> None:
    assert launch_from_flags(flags) == Launch()


def test_every_flag_that_is_looked_at_is_one_of_the_engine() -> None:
    named = {*launch._READ, *launch._LAYOUT_SWITCHES, *launch._LAYOUT_SIZES, *launch._LAYOUT_AMOUNTS}
    assert sorted(flag for flag in named if flag not in KNOWN_FLAGS or KNOWN_FLAGS[flag].name != flag) == []
