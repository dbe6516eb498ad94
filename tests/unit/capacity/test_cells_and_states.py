"""Bytes of a token and of a state, and how many states fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mtpilot.capacity.errors import DoesNotFit, NotCovered
from mtpilot.capacity.kv_cell import cache_dtype, kv_cell
from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.quantity import GIB
from mtpilot.capacity.state_slots import slot_bytes, slots_per_request, state_dtype, state_pool, strategy

from .samples import linear, shape

NEXT = "qwen3-next-80b-a3b"
MTP = Launch(speculation=Speculation(), max_running_requests=48)


@pytest.mark.parametrize(
    ("name", "launch", "cell"),
    [
        ("llama-3.1-8b", Launch(), 32 * 8 * 2 * 128 * 2),
        ("llama-3.1-8b", Launch(tp_size=4), 32 * 2 * 2 * 128 * 2),
        ("llama-3.1-8b", Launch(tp_size=16), 32 * 1 * 2 * 128 * 2),
        ("llama-3.1-8b", Launch(kv_cache_dtype="fp8_e4m3"), 32 * 8 * 2 * 128),
        ("deepseek-v3", Launch(tp_size=8), 61 * 576 * 2),
        ("deepseek-v3.2", Launch(kv_cache_dtype="bfloat16"), 61 * (576 * 2 + 132)),
        ("deepseek-v3.2", Launch(kv_cache_dtype="fp8_e4m3"), 61 * (512 + 16 + 128 + 132)),
        (NEXT, Launch(), 12 * 2 * 2 * 256 * 2),
    ],
)
def test_cell(name: str, launch: Launch, cell: int) -> None:
    assert kv_cell(shape(name), launch).counted == cell


def test_a_declared_draft_layer_counts_without_a_path() -> None:
    cell = kv_cell(shape("deepseek-v3"), MTP, draft_layers=1)
    assert (cell.draft, cell.uncounted) == (576 * 2, 0)
    sparse = kv_cell(shape("deepseek-v3.2"), replace(MTP, kv_cache_dtype="fp8_e4m3"), draft_layers=1)
    assert sparse.draft == 656 + 132


def test_an_undeclared_draft_counts_only_with_a_path() -> None:
    without = kv_cell(shape(NEXT), MTP, draft_layers=1)
    assert (without.draft, without.uncounted) == (0, 2048)
    path = kv_cell(shape(NEXT), replace(MTP, speculation=Speculation(draft_path=True)), draft_layers=1)
    assert (path.draft, path.uncounted) == (2048, 0)


def test_dtype_of_the_cache() -> None:
    fp8_checkpoint = replace(shape("llama-3.1-8b"), quantization={"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"})
    assert cache_dtype(fp8_checkpoint, Launch()) == "fp8_e4m3"
    assert cache_dtype(shape("llama-3.1-8b"), Launch()) == "bfloat16"
    with pytest.raises(NotCovered, match="nvfp4 is not covered"):
        cache_dtype(shape("llama-3.1-8b"), Launch(kv_cache_dtype="nvfp4"))
    with pytest.raises(NotCovered, match="by the GPU"):
        cache_dtype(shape("deepseek-v3.2"), Launch())


def test_bfloat16_nearly_halves_a_state() -> None:
    full, half = slot_bytes(linear(NEXT), Launch()), slot_bytes(linear(NEXT), Launch(mamba_ssm_dtype="bfloat16"))
    assert 0.5 < half / full < 0.52


def test_dtype_of_the_state() -> None:
    assert state_dtype(linear(NEXT), Launch()) == "float32"
    assert state_dtype(replace(linear(NEXT), dtype="bfloat16"), Launch()) == "bfloat16"
    assert state_dtype(replace(linear(NEXT), dtype="bfloat16"), Launch(mamba_ssm_dtype="float32")) == "float32"
    assert state_dtype(replace(linear(NEXT), dtype="int7"), Launch()) == "float32"


@pytest.mark.parametrize(
    ("launch", "slots"),
    [
        (Launch(), 5),
        (Launch(disable_overlap_schedule=True), 3),
        (Launch(disable_overlap_schedule=True, page_size=64), 4),
        (Launch(mamba_radix_cache_strategy="extra_buffer_lazy"), 4),
        (Launch(mamba_radix_cache_strategy="no_buffer"), 3),
        (Launch(disable_radix_cache=True), 1),
    ],
)
def test_slots_of_a_request(launch: Launch, slots: int) -> None:
    assert slots_per_request(launch) == slots


def test_auto_strategy() -> None:
    assert strategy(Launch()) == "extra_buffer"
    assert strategy(Launch(disable_overlap_schedule=True)) == "no_buffer"


@pytest.mark.parametrize(
    ("launch", "share"),
    [
        (Launch(), 5 / 9),
        (Launch(mamba_radix_cache_strategy="no_buffer"), 3 / 7),
    ],
)
def test_mtp_has_r_of_r_plus_d_of_batchs_slots(launch: Launch, share: float) -> None:
    budget = 400 * GIB
    batch = state_pool(linear(NEXT), launch, budget).requests
    mtp = state_pool(linear(NEXT), replace(launch, speculation=Speculation(), max_running_requests=4096), budget).requests
    assert mtp / batch == pytest.approx(share, rel=0.02)


def test_without_radix_cache_the_states_are_the_requests_asked_for() -> None:
    pool = state_pool(linear(NEXT), Launch(disable_radix_cache=True, max_running_requests=64), 40 * GIB)
    assert (pool.slots, pool.requests) == (64, 64)


def test_states_of_drafts_are_only_for_requests_that_can_run() -> None:
    pool = state_pool(linear(NEXT), replace(MTP, max_running_requests=8), 40 * GIB)
    assert pool.drafts_bytes == pool.slot_bytes * 9 * 4
    assert state_pool(linear(NEXT), Launch(), 40 * GIB).drafts_bytes == 0


def test_no_memory_for_a_state() -> None:
    with pytest.raises(DoesNotFit, match="no memory for the state of one request"):
        state_pool(linear(NEXT), MTP, 0.1 * GIB)
