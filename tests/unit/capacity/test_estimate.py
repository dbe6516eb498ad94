"""From config to slots: what binds, what is refused, what is noted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.capacity.errors import DoesNotFit, NotCovered
from mtpilot.capacity.estimate import ModeCapacity, Subject, estimate
from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.limits import Limit, limit_of, resolve_slots
from mtpilot.capacity.memory import Gpu
from mtpilot.capacity.quantity import GIB, bytes_of, size

from .samples import H200, RTX_PRO_6000, shape

HYBRID = Subject(shape=shape("qwen3.5-27b"), gpu=RTX_PRO_6000)
DEEPSEEK = Subject(shape=shape("deepseek-v3"), gpu=H200)
MTP = Launch(speculation=Speculation())
EIGHT = Launch(tp_size=8, mem_fraction_static=0.88)


def notes(found: ModeCapacity) -> str:
    return " ".join(found.notes)


@pytest.mark.parametrize(
    ("asked", "tokens", "context", "slots"),
    [
        (None, 1_000_000, 262_144, 2048),
        (None, 100_000_000, 4096, 4096),
        (None, 200_000, 32_768, 3125),
        (None, 3000, 4096, 1500),
        (128, 1_000_000, 4096, 128),
        (5000, 100_000_000, 4096, 5000),
        (128, 100, 4096, 50),
    ],
)
def test_running_requests_of_a_model_without_states(asked: int | None, tokens: int, context: int, slots: int) -> None:
    launch = Launch(max_running_requests=asked)
    assert resolve_slots(launch, kv_tokens=tokens, context_length=context, request_tokens=1, states=None).engine == slots


def test_long_requests_bind_before_the_engine_does() -> None:
    found = estimate(DEEPSEEK, replace(EIGHT, max_running_requests=256))
    assert found.slots.engine == 256
    long = estimate(replace(DEEPSEEK, input_tokens=30_000), replace(EIGHT, max_running_requests=256))
    assert (long.slots.engine, long.slots.limit) == (256, Limit.KV_TOKENS)
    assert long.slots.usable == long.kv_tokens // 31_000


def test_a_request_asked_for_binds() -> None:
    found = estimate(DEEPSEEK, replace(EIGHT, max_running_requests=16))
    assert (found.slots.usable, found.slots.limit) == (16, Limit.MAX_RUNNING_REQUESTS)


def test_a_hybrid_model_is_bound_by_states() -> None:
    mtp, batch = estimate(HYBRID, MTP), estimate(HYBRID, Launch())
    assert (mtp.mode, batch.mode) == (Mode.MTP, Mode.BATCH)
    assert mtp.slots.limit is batch.slots.limit is Limit.STATE_SLOTS
    assert mtp.slots.usable < batch.slots.usable


def test_speculation_reserves_tokens_for_each_request() -> None:
    assert estimate(HYBRID, MTP).request_tokens == 2008
    assert estimate(HYBRID, Launch()).request_tokens == 2000


def test_measured_weights_go_before_the_count() -> None:
    found = estimate(replace(HYBRID, weights_bytes=50 * GIB, draft_weights_bytes=6 * GIB), MTP)
    assert (found.weights.target, found.weights.draft) == (50 * GIB, 6 * GIB)
    assert estimate(replace(HYBRID, draft_weights_bytes=6 * GIB), Launch()).weights.draft == 0
    counted = estimate(HYBRID, MTP)
    assert estimate(replace(HYBRID, weights_bytes=50 * GIB), MTP).weights.draft == counted.weights.draft


def test_measured_weights_need_no_known_quantisation() -> None:
    odd = replace(shape("qwen3.5-27b"), quantization={"quant_method": "quark"})
    with pytest.raises(NotCovered, match="quant_method"):
        estimate(replace(HYBRID, shape=odd), Launch())
    assert estimate(replace(HYBRID, shape=odd, weights_bytes=30 * GIB), Launch()).weights.target == 30 * GIB


def test_a_separate_draft_must_be_described() -> None:
    subject = Subject(shape=shape("llama-3.1-8b"), gpu=RTX_PRO_6000)
    launch = Launch(speculation=Speculation(draft_path=True))
    with pytest.raises(NotCovered, match="has no MTP layer of its own"):
        estimate(subject, launch)
    with pytest.raises(NotCovered, match="weights of a separate draft"):
        estimate(replace(subject, draft_layers=1), launch)
    found = estimate(replace(subject, draft_layers=1, draft_weights_bytes=GIB), launch)
    assert found.cell.draft == found.cell.target // 32


def test_pages_and_a_token_cap() -> None:
    assert estimate(HYBRID, Launch(page_size=64)).kv_tokens % 64 == 0
    assert estimate(HYBRID, Launch(max_total_tokens=10_001, page_size=10)).kv_tokens == 10_000


def test_a_model_that_does_not_fit_says_so() -> None:
    with pytest.raises(DoesNotFit, match="leave nothing for the KV cache"):
        estimate(replace(HYBRID, gpu=Gpu(memory_bytes=48 * GIB)), Launch())
    with pytest.raises(DoesNotFit, match="not one request of 250000 tokens"):
        estimate(replace(HYBRID, input_tokens=240_000, output_tokens=10_000), Launch())
    with pytest.raises(DoesNotFit, match="no memory for KV cache"):
        estimate(HYBRID, Launch(max_mamba_cache_size=500))


def test_a_draft_cache_that_is_not_counted_is_noted() -> None:
    assert "leaves the draft's KV cache out" in notes(estimate(HYBRID, MTP))
    assert notes(estimate(HYBRID, Launch(speculation=Speculation(draft_path=True)))) == ""
    assert notes(estimate(HYBRID, Launch())) == ""


def test_adaptive_speculation_takes_more_states_than_the_sum_has() -> None:
    adaptive = Speculation(draft_path=True, adaptive=True)
    assert "states for 8 draft tokens, SGLang's sum has 4" in notes(estimate(HYBRID, Launch(speculation=adaptive)))
    assert notes(estimate(HYBRID, Launch(speculation=replace(adaptive, own_table=True)))) == ""
    full = replace(adaptive, num_steps=7, num_draft_tokens=8)
    assert notes(estimate(HYBRID, Launch(speculation=full))) == ""


def test_limit_of_an_engine_that_only_reports() -> None:
    assert limit_of(48, 48) is Limit.MAX_RUNNING_REQUESTS
    assert limit_of(24, 48) is Limit.MEMORY


@pytest.mark.parametrize(("text", "number"), [("96Gi", 96 << 30), ("80G", 80 * 10**9), ("1.5Ki", 1536), ("512", 512), ("2Ti", 2 << 40)])
def test_quantities(text: str, number: int) -> None:
    assert bytes_of(text) == number


@pytest.mark.parametrize("text", ["", "96 Gi", "Gi", "-1Gi", "96GB"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        bytes_of(text)


@pytest.mark.parametrize(("number", "text"), [(3 << 30, "3.0 GiB"), (5 << 20, "5.0 MiB"), (1024, "1.0 KiB")])
def test_sizes_in_words(number: int, text: str) -> None:
    assert size(number) == text
