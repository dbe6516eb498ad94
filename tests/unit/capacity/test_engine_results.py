"""The formulas against results of SGLang 0.5.23's own functions on random arguments.

`engine_results.json` was made once: `_handle_max_mamba_cache`, `_calculate_mamba_ratio` and `resolve_max_num_reqs` of
`mem_cache/kv_cache_configurator.py`, and `handle_gpu_memory_settings` of `arg_groups/memory_hook.py`, were cut out of the wheel
(Apache-2.0) and run with stubs for the GPU. 3996 pools and 3000 fractions were compared; these are the first of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.limits import resolve_slots
from mtpilot.capacity.memory import Gpu, default_mem_fraction
from mtpilot.capacity.quantity import GIB, MIB
from mtpilot.capacity.shape import GatedDeltaNet, ModelShape
from mtpilot.capacity.state_slots import state_pool

from .samples import shape

RESULTS: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "engine_results.json").read_text(encoding="utf-8"))
SHAPES: dict[str, ModelShape] = {
    found.architecture: found for found in map(shape, ("llama-3.1-8b", "qwen3.5-27b", "deepseek-v3", "qwen3-30b-a3b"))
}


def test_state_pools_and_running_requests() -> None:
    for case in RESULTS["pools"]:
        linear = GatedDeltaNet(
            layers=case["layers"], key_heads=16, value_heads=case["valueHeads"], key_head_dim=128, value_head_dim=128, conv_kernel=4
        )
        drafts = case["draftTokens"]
        launch = Launch(
            tp_size=case["tp"],
            max_running_requests=case["maxRunningRequests"],
            mamba_radix_cache_strategy=case["strategy"],
            disable_overlap_schedule=not case["overlap"],
            disable_radix_cache=not case["radix"],
            max_mamba_cache_size=case["maxMambaCacheSize"],
            mamba_full_memory_ratio=case["ratio"],
            mamba_ssm_dtype=case["ssmDtype"],
            speculation=Speculation(num_steps=drafts - 1, num_draft_tokens=drafts) if drafts else None,
        )
        pool = state_pool(linear, launch, case["restGib"] * GIB)
        slots = resolve_slots(launch, kv_tokens=case["kvTokens"], context_length=32768, request_tokens=1, states=pool)
        assert (pool.slots, slots.engine) == (case["slots"], case["engineSlots"]), case
        assert case["restGib"] - (pool.states_bytes + pool.drafts_bytes) / GIB == pytest.approx(case["afterGib"], abs=1e-6), case


def test_default_fractions() -> None:
    for case in RESULTS["fractions"]:
        launch = Launch(
            tp_size=case["tp"],
            max_running_requests=case["maxRunningRequests"],
            chunked_prefill_size=case["chunkedPrefillSize"],
            cuda_graph_max_bs_decode=case["cudaGraphMaxBsDecode"],
            max_total_tokens=case["maxTotalTokens"],
            speculation=Speculation() if case["speculation"] else None,
        )
        found = default_mem_fraction(SHAPES[case["architecture"]], launch, Gpu(memory_bytes=case["memoryMib"] * MIB))
        assert found == pytest.approx(case["memFractionStatic"], abs=1e-9), case
