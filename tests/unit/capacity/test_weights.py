"""Weights: the published sizes, their division by ranks, and quantisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mtpilot.capacity.errors import NotCovered
from mtpilot.capacity.quantization import read_quantization
from mtpilot.capacity.shape import GroupedAttention, ModelShape
from mtpilot.capacity.weights import check_tensor_parallel, count_weights

from .samples import shape


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3.1-8b", 8.03),
        ("qwen3-30b-a3b", 30.5),
        ("qwen3-235b-a22b-fp8", 235.1),
        ("qwen3-next-80b-a3b", 79.7),
        ("qwen3.5-27b", 27.4),
        ("qwen3.5-122b-a10b", 122.6),
        ("qwen3.5-397b-a17b", 397.0),
        ("deepseek-v3", 671.0),
    ],
)
def test_parameters_are_the_published_ones(name: str, billions: float) -> None:
    unquantised = replace(shape(name), quantization={})
    assert count_weights(unquantised, 1).target / 2e9 == pytest.approx(billions, rel=0.005)


def test_ranks_share_the_weights_but_for_what_each_needs_whole() -> None:
    whole, shared = count_weights(shape("qwen3.5-122b-a10b"), 1), count_weights(shape("qwen3.5-122b-a10b"), 4)
    assert 0.25 * whole.target < shared.target < 0.26 * whole.target
    assert 0.25 * whole.draft < shared.draft < 0.26 * whole.draft


def test_fewer_kv_heads_than_ranks_are_kept_by_every_rank() -> None:
    attention_only = replace(shape("llama-3.1-8b"), vocab_size=0, intermediate_size=0)
    eight, sixteen = count_weights(attention_only, 8).target, count_weights(attention_only, 16).target
    assert sixteen > eight / 2


def test_tied_embeddings_are_there_once_in_target_and_draft() -> None:
    untied = shape("qwen3.5-27b")
    tied = replace(untied, tied_embeddings=True)
    table = 2 * untied.vocab_size * untied.hidden_size
    assert count_weights(untied, 1).target - count_weights(tied, 1).target == table
    assert count_weights(untied, 1).draft - count_weights(tied, 1).draft == table


def test_a_model_without_mtp_layers_has_no_draft() -> None:
    assert count_weights(shape("qwen3-30b-a3b"), 1).draft == 0


def test_heads_that_do_not_divide_are_refused() -> None:
    check_tensor_parallel(shape("qwen3.5-27b"), 8)
    with pytest.raises(NotCovered, match=r"--tp-size: 16 does not divide num_attention_heads = 24"):
        check_tensor_parallel(shape("qwen3.5-27b"), 16)
    with pytest.raises(NotCovered, match=r"linear_num_key_heads = 16"):
        check_tensor_parallel(shape("qwen3.5-397b-a17b"), 32)


@pytest.mark.parametrize(("kv_heads", "tp_size"), [(6, 4), (4, 6), (3, 8), (8, 12)])
def test_kv_heads_divide_or_are_repeated_whole(kv_heads: int, tp_size: int) -> None:
    llama = shape("llama-3.1-8b")
    grouped = llama.attention
    assert isinstance(grouped, GroupedAttention)

    def with_heads(kv_heads: int) -> ModelShape:
        return replace(llama, attention=replace(grouped, heads=48, kv_heads=kv_heads))

    for good in (tp_size, 2 * tp_size, 1):
        check_tensor_parallel(with_heads(good), tp_size)
    with pytest.raises(NotCovered, match=f"--tp-size: {tp_size} neither divides num_key_value_heads = {kv_heads} nor is a multiple of it"):
        check_tensor_parallel(with_heads(kv_heads), tp_size)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128, 128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": ["128", "128"]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "weight_block_size"),
        ({"quant_method": "fp8", "ignored_layers": 3}, "ignored_layers"),
        ({"quant_method": "awq", "bits": 4, "group_size": "all"}, "group_size"),
        ({"quant_method": "compressed-tensors", "config_groups": [{"weights": {"num_bits": 8}}]}, "config_groups"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": [8]}}, "config_groups.a"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": [8]}}}, "config_groups.a.weights"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "group_size": "g"}}}},
            "config_groups.a.weights.group_size",
        ),
    ],
)
def test_a_quantisation_of_another_form_names_the_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(NotCovered) as caught:
        read_quantization(config)
    assert caught.value.field == f"quantization_config.{field}"


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({}, 2.0),
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, (4 + 20 / 128) / 8),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1.0),
        ({"quant_method": "mxfp4"}, 4.25 / 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5 / 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 1.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
            },
            4.5 / 8,
        ),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}}}, 1.0),
    ],
)
def test_bytes_of_a_weight(config: dict[str, Any], size: float) -> None:
    assert read_quantization(config).mean_bytes("mlp", 10) == pytest.approx(size)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"quant_method": "quark"}, "quantization_config.quant_method"),
        ({"quant_method": "awq"}, "quantization_config.bits"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantization_config.quant_algo"),
        ({"quant_method": "compressed-tensors"}, "quantization_config.config_groups"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 5}}}},
            "quantization_config.config_groups.a.weights.num_bits",
        ),
    ],
)
def test_an_unknown_quantisation_is_named(config: dict[str, Any], field: str) -> None:
    with pytest.raises(NotCovered) as caught:
        read_quantization(config)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("exceptions", "kind", "size"),
    [
        (["lm_head", "re:.*mlp.gate$", "model.layers.0.linear_attn.conv1d", "model.visual.blocks.0.attn"], "linear_attn", 1.0),
        (["model.layers.0.linear_attn.in_proj_a"], "linear_attn", 1.0),
        (["re:.*self_attn.*"], "self_attn", 2.0),
        (["model.layers.3.self_attn.q_proj", "model.layers.3.self_attn.k_proj", "model.layers.7.self_attn"], "self_attn", 1.2),
        (["mtp.layers.0*"], "mtp", 2.0),
        (["mtp.fc"], "mtp", 1.0),
        (["model.layers.1.mlp.shared_expert.up_proj"], "experts", 1.0),
    ],
)
def test_exceptions_are_of_a_kind_of_layer(exceptions: list[str], kind: str, size: float) -> None:
    found = read_quantization({"quant_method": "fp8", "modules_to_not_convert": exceptions})
    assert found.mean_bytes(kind, 10) == pytest.approx(size)
