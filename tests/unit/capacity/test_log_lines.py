"""The formulas against lines that engines in public printed. docs/capacity.md has the same list, with the errors."""

from __future__ import annotations

import pytest

from mtpilot.capacity.errors import DoesNotFit
from mtpilot.capacity.estimate import Subject, estimate
from mtpilot.capacity.kv_cell import kv_cell
from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.limits import Limit, resolve_slots
from mtpilot.capacity.memory import Gpu, rest_bytes
from mtpilot.capacity.quantity import GIB, MIB
from mtpilot.capacity.shape import GatedDeltaNet
from mtpilot.capacity.state_slots import slot_bytes, slots_per_request, state_pool
from mtpilot.capacity.weights import count_weights

from .samples import H100, H200, RTX_PRO_6000, linear, shape

MANY = 1_000_000  # KV tokens that do not bind


@pytest.mark.parametrize(
    ("asked", "states", "requests"),
    [
        (32, 47, 9),  # sgl-project/sglang#38846
        (16, 40, 8),  # jpezzulli/sglang-rtxpro6000#5
        (16, 64, 12),  # MiaAI-Lab/Qwen3.8-27B-SGLang-DGX-Spark#7
        (8, 10, 2),  # sgl-project/sglang#36889
        (32, 55, 11),  # noonghunna/club-3090, five composes on one machine
        (8, 33, 6),
        (8, 21, 4),
        (8, 8, 1),
    ],
)
def test_capped_by_the_state_cache(asked: int, states: int, requests: int) -> None:
    """`max_running_requests is capped to N by the mamba state cache (max_mamba_cache_size=M, 5 state slots per request)`."""
    launch = Launch(max_running_requests=asked, max_mamba_cache_size=states)
    pool = state_pool(linear("qwen3.5-27b"), launch, 40 * GIB)
    found = resolve_slots(launch, kv_tokens=MANY, context_length=262144, request_tokens=2000, states=pool)
    assert (slots_per_request(launch), found.engine, found.limit) == (5, requests, Limit.STATE_SLOTS)


def test_state_bytes_of_a_layer() -> None:
    """ovg-project/kvcached#459, Qwen3.5-9B: `raw=2146304B`."""
    layer = GatedDeltaNet(layers=1, key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4)
    assert slot_bytes(layer, Launch()) == 2_146_304


@pytest.mark.parametrize(
    ("model", "tp_size", "states", "gib"),
    [
        ("qwen3.5-27b", 1, 360, 0.99 + 50.77),  # a DGX Spark with Qwen3.8-27B: conv_state 0.99GB, ssm_state 50.77GB
        ("qwen3.5-397b-a17b", 2, 82, 0.13 + 7.29),  # kvcache-ai/ktransformers#1870
    ],
)
def test_state_cache_size(model: str, tp_size: int, states: int, gib: float) -> None:
    """`Mamba Cache is allocated. max_mamba_cache_size: …`: one padding slot more."""
    assert (states + 1) * slot_bytes(linear(model), Launch(tp_size=tp_size)) / GIB == pytest.approx(gib, abs=0.011)


@pytest.mark.parametrize(
    ("model", "launch", "tokens", "gib"),
    [
        ("qwen3.5-27b", Launch(kv_cache_dtype="fp8_e4m3"), 228_520, 2 * 3.49),  # the same DGX Spark
        ("qwen3.5-397b-a17b", Launch(tp_size=2), 580_364, 2 * 4.15),  # ktransformers#1870
        ("qwen3-235b-a22b-fp8", Launch(tp_size=4), 367_404, 2 * 8.23),  # vllm-project/vllm#21348
        ("qwen3-30b-a3b", Launch(), 1_669_816, 2 * 76.44),  # sgl-project/sglang#18263
        ("deepseek-v3.2", Launch(kv_cache_dtype="fp8_e4m3"), 975_424, 43.67),  # sgl-project/sglang#11309
    ],
)
def test_kv_cache_size(model: str, launch: Launch, tokens: int, gib: float) -> None:
    """`KV Cache is allocated. #tokens: …, K size: … GB, V size: … GB`, rounded to 0.01 each."""
    assert kv_cell(shape(model), launch).target * tokens / GIB == pytest.approx(gib, abs=0.011)


def test_memory_is_split_between_states_and_kv_cache() -> None:
    """ktransformers#1870: 82 states and 580364 tokens come from one budget; both follow from it."""
    launch, budget = Launch(tp_size=2), 15.725 * GIB
    pool = state_pool(linear("qwen3.5-397b-a17b"), launch, budget)
    assert pool.slots == 82
    tokens = (budget - pool.states_bytes) / kv_cell(shape("qwen3.5-397b-a17b"), launch).counted
    assert tokens == pytest.approx(580_364, rel=0.001)


def test_free_memory_after_the_weights() -> None:
    """sglang#18263: 230.20 GB free after 56.98 GB of weights, fraction 0.911: `initial available_bytes … 204.63 GB`."""
    gpu = Gpu(memory_bytes=288 * GIB, free_before_load_bytes=round((230.20 + 56.98) * GIB))
    rest = rest_bytes(shape("qwen3-30b-a3b"), Launch(mem_fraction_static=0.911), gpu, 56.98 * GIB)
    assert rest / GIB == pytest.approx(204.63, abs=0.015)


@pytest.mark.parametrize(("draft_gib", "least"), [(0.0, "0.911"), (3.07, "0.933")])
def test_draft_weights_are_paid_by_the_pool(draft_gib: float, least: str) -> None:
    """SemiAnalysisAI/InferenceX#2128: at least 0.9113, with the draft 0.9335."""
    gpu = Gpu(memory_bytes=141 * GIB, free_before_load_bytes=round((12.25 + 125.65) * GIB))
    with pytest.raises(DoesNotFit, match=rf"raise it above {least}"):
        rest_bytes(shape("deepseek-v3"), Launch(tp_size=8, mem_fraction_static=0.88), gpu, (125.65 + draft_gib) * GIB)


@pytest.mark.parametrize(
    ("model", "gib", "error"),
    [("qwen3-30b-a3b", 56.98, 0.005), ("qwen3.5-27b-fp8", 28.39, 0.005)],  # sglang#18263, #35996
)
def test_weights_of_the_target(model: str, gib: float, error: float) -> None:
    """`Load weight end … mem usage=`."""
    assert count_weights(shape(model), 1).target / GIB == pytest.approx(gib, rel=error)


def test_weights_of_the_draft_include_its_copies_of_embedding_and_head() -> None:
    """sglang#35996: `type=Qwen3_5ForCausalLMMTP, mem usage=5.18 GB`; #36452: 5.08 GB (10⁹) of them are the two copies."""
    assert count_weights(shape("qwen3.5-27b-fp8"), 1).draft / GIB == pytest.approx(5.18, rel=0.005)


@pytest.mark.parametrize(
    ("model", "gpu", "launch", "tokens"),
    [
        ("qwen3-235b-a22b-fp8", H100, Launch(tp_size=4, mem_fraction_static=0.93), 367_404),  # vllm#21348
        ("deepseek-v3", H200, Launch(tp_size=8, mem_fraction_static=0.82), 509_000),  # ai-dynamo/aisimulate#263, "~509k"
    ],
)
def test_kv_tokens_from_config_to_pool(model: str, gpu: Gpu, launch: Launch, tokens: int) -> None:
    """Nothing measured goes in but the memory that the runtime itself takes."""
    found = estimate(Subject(shape=shape(model), gpu=gpu), launch)
    assert found.kv_tokens == pytest.approx(tokens, rel=0.03)


class TestWorkedExample:
    """40 GiB for the pools, Qwen3-Next-80B on one rank, worked out from the engine's source by hand."""

    SHAPE = "qwen3-next-80b-a3b"

    def slots_and_tokens(self, speculation: Speculation | None) -> tuple[int, int]:
        launch = Launch(speculation=speculation, max_running_requests=256)
        pool = state_pool(linear(self.SHAPE), launch, 40 * GIB)
        cell = kv_cell(shape(self.SHAPE), launch, draft_layers=1 if speculation else 0)
        return pool.requests, int((40 * GIB - pool.states_bytes - pool.drafts_bytes) // cell.counted)

    def test_batch(self) -> None:
        slots, tokens = self.slots_and_tokens(None)
        assert slots == 52
        assert tokens == pytest.approx(921_000, rel=0.001)

    def test_mtp_with_a_draft_path(self) -> None:
        slots, tokens = self.slots_and_tokens(Speculation(draft_path=True))
        assert slots == 28
        assert tokens == pytest.approx(859_000, rel=0.001)

    def test_mtp_without_a_path_does_not_count_the_draft(self) -> None:
        slots, tokens = self.slots_and_tokens(Speculation())
        assert slots == 28
        assert tokens == pytest.approx(930_000, rel=0.001)

    def test_a_state(self) -> None:
        assert slot_bytes(linear(self.SHAPE), Launch()) / MIB == pytest.approx(73.7, abs=0.05)

    def test_states_of_drafts_without_radix_cache(self) -> None:
        launch = Launch(speculation=Speculation(), max_running_requests=256, disable_radix_cache=True)
        assert state_pool(linear(self.SHAPE), launch, 400 * GIB).drafts_bytes / GIB == pytest.approx(74, abs=0.1)

    def test_a_draft_layer_is_a_twelfth_of_the_cell(self) -> None:
        cell = kv_cell(shape(self.SHAPE), Launch(speculation=Speculation(draft_path=True)), draft_layers=1)
        assert cell.draft / cell.target == pytest.approx(0.083, abs=0.001)


def test_qwen_27b_without_speculation_has_the_reported_16_slots() -> None:
    """Qwen3.6-27B in bfloat16 on one RTX PRO 6000, SGLang's defaults: 16 slots. With MTP 4 were reported, 6 are estimated (docs)."""
    found = estimate(Subject(shape=shape("qwen3.5-27b"), gpu=RTX_PRO_6000), Launch())
    assert (found.slots.usable, found.slots.limit) == (16, Limit.STATE_SLOTS)
