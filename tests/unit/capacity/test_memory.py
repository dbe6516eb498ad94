"""The static share and its default."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mtpilot.capacity.errors import DoesNotFit, NotCovered
from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.memory import Gpu, default_mem_fraction, free_before_load, graph_reserve_mib, mem_fraction, rest_bytes
from mtpilot.capacity.quantity import GIB, MIB

from .samples import H200, RTX_PRO_6000, shape

LLAMA, HYBRID, DEEPSEEK = "llama-3.1-8b", "qwen3.5-27b", "deepseek-v3"
RECORDED = Path(__file__).parents[2] / "contract" / "recordings" / "sglang-0.5.23" / "server_info-batch.json"


@pytest.mark.parametrize(
    ("name", "launch", "gpu", "reserve"),
    [
        # 512 + 1.5 × chunk + TP / 8 × 1024 + 2 × decode + 8 × prefill captures (50 up to 4096, 58 up to 8192, 74 up to 16384)
        (LLAMA, Launch(), RTX_PRO_6000, 512 + 12288 + 128 + 512 + 8 * 58),
        (LLAMA, Launch(tp_size=8), RTX_PRO_6000, 512 + 12288 + 1024 + 1024 + 8 * 58),
        (LLAMA, Launch(max_running_requests=96), RTX_PRO_6000, 512 + 12288 + 128 + 192 + 8 * 58),
        (LLAMA, Launch(speculation=Speculation()), RTX_PRO_6000, 512 + 12288 + 128 + 512 + 8 * 58),
        (LLAMA, Launch(), Gpu(memory_bytes=24 * GIB), 512 + 6144 + 128 + 96 + 8 * 50),
        (LLAMA, Launch(tp_size=4), Gpu(memory_bytes=24 * GIB), 512 + 6144 + 512 + 320 + 8 * 50),
        (LLAMA, Launch(), Gpu(memory_bytes=192 * GIB), 512 + 24576 + 128 + 1024 + 8 * 74),
        (LLAMA, Launch(chunked_prefill_size=2048), RTX_PRO_6000, 10240),
        (DEEPSEEK, Launch(tp_size=8), H200, 512 + 12288 + 1024 + 1024 + 1536),
    ],
)
def test_default_share(name: str, launch: Launch, gpu: Gpu, reserve: float) -> None:
    memory = gpu.memory_bytes / MIB
    assert default_mem_fraction(shape(name), launch, gpu) == round((memory - reserve) / memory, 3)


def test_a_vision_tower_lowers_the_default() -> None:
    text = default_mem_fraction(replace(shape(HYBRID), multimodal=False), Launch(), RTX_PRO_6000)
    assert default_mem_fraction(shape(HYBRID), Launch(), RTX_PRO_6000) == pytest.approx(text * 0.95 * (1 - 0.1 * (1152**2 / 1024**2 - 1)))


def test_the_share_that_is_given_goes_before_the_default() -> None:
    assert mem_fraction(shape(HYBRID), Launch(mem_fraction_static=0.7), RTX_PRO_6000) == 0.7


@pytest.mark.parametrize(
    ("memory", "tp_size", "words"), [(96, 1, "the 768.0 MiB that"), (0, 1, "^spec.gpu.memory: 0 bytes"), (2 * GIB, 4, "2.3 GiB")]
)
def test_memory_that_the_runtime_fills_is_a_size_without_its_unit(memory: int, tp_size: int, words: str) -> None:
    with pytest.raises(NotCovered, match=words):
        rest_bytes(shape(LLAMA), Launch(tp_size=tp_size), Gpu(memory_bytes=memory), GIB)


def test_graphs_reserve_by_the_largest_decode_batch() -> None:
    small = graph_reserve_mib(shape(LLAMA), Launch(cuda_graph_max_bs_decode=32), RTX_PRO_6000)
    assert graph_reserve_mib(shape(LLAMA), Launch(), RTX_PRO_6000) - small == 2 * (256 - 32)


@pytest.mark.skipif(not RECORDED.exists(), reason="the recording is kept elsewhere")
def test_prefill_captures_are_those_of_a_recorded_server() -> None:
    prefill = json.loads(RECORDED.read_text("utf-8"))["cuda_graph_config"]["prefill"]
    launch = Launch(chunked_prefill_size=prefill["max_bs"], cuda_graph_max_bs_decode=1)
    assert graph_reserve_mib(shape(LLAMA), launch, RTX_PRO_6000) == 2 + 8 * len(prefill["bs"])


def test_the_runtime_takes_its_part_before_the_weights() -> None:
    assert free_before_load(RTX_PRO_6000, 1) == 95.25 * GIB
    assert free_before_load(RTX_PRO_6000, 4) < free_before_load(RTX_PRO_6000, 1)
    assert free_before_load(Gpu(memory_bytes=96 * GIB, free_before_load_bytes=90 * GIB), 4) == 90 * GIB


def test_multimodal_models_keep_100_mib_aside() -> None:
    text = replace(shape(HYBRID), multimodal=False)
    launch = Launch(mem_fraction_static=0.8)
    assert rest_bytes(text, launch, RTX_PRO_6000, 0) - rest_bytes(shape(HYBRID), launch, RTX_PRO_6000, 0) == 100 * MIB


def test_weights_that_fit_no_share_ask_for_another_machine() -> None:
    with pytest.raises(DoesNotFit, match="use more GPUs or a smaller quantisation"):
        rest_bytes(shape(LLAMA), Launch(mem_fraction_static=0.9), RTX_PRO_6000, 95.2 * GIB)
