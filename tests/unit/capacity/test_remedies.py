"""What to change first, tried with the formulas or said from a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mtpilot.capacity.compare import Remedy, compare
from mtpilot.capacity.errors import DoesNotFit
from mtpilot.capacity.estimate import Subject, estimate
from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.limits import Limit
from mtpilot.capacity.remedy import remedy, steps

from .samples import H200, RTX_PRO_6000, shape

HYBRID = Subject(shape=shape("qwen3.5-27b"), gpu=RTX_PRO_6000)
DEEPSEEK = Subject(shape=shape("deepseek-v3"), gpu=H200)
MTP = Launch(speculation=Speculation())
BFLOAT16 = Launch(mamba_ssm_dtype="bfloat16")
LAZY = replace(BFLOAT16, mamba_radix_cache_strategy="extra_buffer_lazy")


def order(launch: Launch, limit: Limit, *, hybrid: bool) -> list[str]:
    return [step.text for step in steps(launch, limit, hybrid=hybrid)]


def test_the_order_of_a_hybrid_model() -> None:
    assert order(MTP, Limit.STATE_SLOTS, hybrid=True) == [
        "--mamba-ssm-dtype bfloat16",
        "--mamba-radix-cache-strategy extra_buffer_lazy",
        "3 draft tokens instead of 4 (numSteps 2)",
        "flip to batch",
    ]


def test_raising_the_limit_comes_first_where_it_binds() -> None:
    assert order(MTP, Limit.MAX_RUNNING_REQUESTS, hybrid=True)[0] == "--max-running-requests"
    assert "--max-running-requests" not in order(MTP, Limit.STATE_SLOTS, hybrid=True)


def test_what_is_done_already_is_not_advised() -> None:
    assert order(LAZY, Limit.STATE_SLOTS, hybrid=True) == []
    assert order(replace(LAZY, speculation=Speculation(num_steps=1, num_draft_tokens=2)), Limit.STATE_SLOTS, hybrid=True) == [
        "flip to batch"
    ]
    assert order(Launch(disable_radix_cache=True), Limit.STATE_SLOTS, hybrid=True) == ["--mamba-ssm-dtype bfloat16"]


def test_a_smaller_cache_cell_where_tokens_bind() -> None:
    assert order(Launch(), Limit.KV_TOKENS, hybrid=False) == ["--kv-cache-dtype fp8_e4m3"]
    assert order(Launch(kv_cache_dtype="fp8_e4m3"), Limit.KV_TOKENS, hybrid=False) == []


def test_a_remedy_comes_with_the_slots_it_gives() -> None:
    found = compare(HYBRID, MTP, Launch())
    assert found.mtp_remedy is not None
    assert found.mtp_remedy.text == "--mamba-ssm-dtype bfloat16"
    assert found.mtp_remedy.slots == estimate(HYBRID, replace(MTP, mamba_ssm_dtype="bfloat16")).slots.usable
    assert found.mtp_remedy.slots > found.mtp.slots.usable


def test_then_the_lazy_strategy_then_fewer_drafts_then_a_flip() -> None:
    batch = LAZY
    second = compare(HYBRID, replace(BFLOAT16, speculation=Speculation()), batch)
    assert second.mtp_remedy is not None
    assert second.mtp_remedy.text == "--mamba-radix-cache-strategy extra_buffer_lazy"
    third = compare(HYBRID, replace(LAZY, speculation=Speculation(num_steps=4, num_draft_tokens=5)), batch)
    assert third.mtp_remedy is not None
    assert third.mtp_remedy.text.startswith("4 draft tokens instead of 5")
    last = compare(HYBRID, replace(LAZY, speculation=Speculation(num_steps=1, num_draft_tokens=2)), batch)
    assert last.mtp_remedy == Remedy(text="flip to batch", slots=last.batch.slots.usable)


def test_the_default_of_48_is_told_apart_and_raised_to_what_fits() -> None:
    launch = Launch(tp_size=8, mem_fraction_static=0.88)
    found = compare(DEEPSEEK, replace(launch, speculation=Speculation()), launch)
    assert found.mtp.slots.usable == 48
    assert "SGLang's default of 48 with speculation binds" in found.conclusion
    assert found.mtp_remedy is not None
    assert found.mtp_remedy.text == f"--max-running-requests {found.mtp_remedy.slots}"
    raised = estimate(DEEPSEEK, replace(launch, speculation=Speculation(), max_running_requests=found.mtp_remedy.slots))
    assert raised.slots.usable == found.mtp_remedy.slots


def test_a_change_that_gives_next_to_nothing_is_passed_over() -> None:
    """48 slots where 50 fit: the limit alone is no remedy, smaller states and the limit together are."""
    subject = Subject(shape=shape("qwen3.5-122b-a10b"), gpu=RTX_PRO_6000)
    launch = Launch(tp_size=4, mem_fraction_static=0.92, max_running_requests=48, speculation=Speculation(num_steps=1, num_draft_tokens=2))
    found = compare(subject, launch, Launch(tp_size=4, mem_fraction_static=0.85, max_running_requests=128))
    assert found.mtp_remedy is not None
    assert found.mtp_remedy.text.startswith("--mamba-ssm-dtype bfloat16 and --max-running-requests ")
    assert found.mtp_remedy.slots >= 1.1 * 48


def test_conclusions() -> None:
    states = compare(HYBRID, MTP, Launch()).conclusion
    assert states.startswith(
        "mtp has 6 of batch's 16 slots: state slots bind (32 states, 5 for each request, and a state for each of 4 draft"
    )
    launch = Launch(tp_size=8, mem_fraction_static=0.88, max_running_requests=32)
    same = compare(DEEPSEEK, replace(launch, speculation=Speculation()), launch).conclusion
    assert same.startswith("mtp has 32 slots, batch 32: slots are no reason to flip, only the curves can be; first remedy for batch")
    long = replace(DEEPSEEK, input_tokens=60_000)
    assert "KV tokens bind" in compare(long, replace(launch, speculation=Speculation()), launch).conclusion


def test_what_does_not_fit_names_the_mode() -> None:
    with pytest.raises(DoesNotFit, match=r"^mtp: "):
        compare(replace(HYBRID, draft_weights_bytes=40 << 30), MTP, Launch())


@pytest.mark.parametrize(
    ("limit", "launch", "hybrid", "text"),
    [
        (Limit.MAX_RUNNING_REQUESTS, None, None, "raise --max-running-requests above 48, as far as memory allows"),
        (Limit.STATE_SLOTS, MTP, True, "state slots for 24 of the 48 requests asked for; first remedy: --mamba-ssm-dtype bfloat16"),
        (Limit.MEMORY, None, True, "memory for 24 of the 48 requests asked for; first remedy: --mamba-ssm-dtype bfloat16"),
        (Limit.MEMORY, replace(LAZY, speculation=Speculation()), True, "first remedy: 3 draft tokens instead of 4 (numSteps 2)"),
        (Limit.KV_TOKENS, MTP, None, "KV tokens for 24 of the 48 requests asked for; first remedy: --kv-cache-dtype fp8_e4m3"),
        (Limit.MEMORY, MTP, False, "KV tokens for 24 of the 48 requests asked for; first remedy: --kv-cache-dtype fp8_e4m3"),
        (
            Limit.MEMORY,
            MTP,
            None,
            "memory for 24 of the 48 requests asked for; the engine's start log says whether KV tokens or recurrent states are short",
        ),
    ],
)
def test_a_sentence_for_status(limit: Limit, launch: Launch | None, hybrid: bool | None, text: str) -> None:
    found = remedy(effective_slots=24, requested_slots=48, limit=limit, launch=launch, hybrid=hybrid)
    assert found is not None
    assert found.endswith(text)


def test_a_flip_is_no_remedy_before_a_flip() -> None:
    small = replace(MTP, kv_cache_dtype="fp8_e4m3")
    assert remedy(effective_slots=24, requested_slots=48, limit=Limit.MEMORY, launch=small, hybrid=False) is None


@pytest.mark.parametrize("hybrid", [False, None])
@pytest.mark.parametrize("limit", Limit)
def test_states_are_no_advice_for_a_model_that_is_not_known_to_keep_any(limit: Limit, hybrid: bool | None) -> None:
    for launch in (None, MTP, LAZY, replace(MTP, kv_cache_dtype="fp8_e4m3")):
        text = remedy(effective_slots=24, requested_slots=48, limit=limit, launch=launch, hybrid=hybrid) or ""
        assert "mamba" not in text
        assert "draft tokens" not in text
