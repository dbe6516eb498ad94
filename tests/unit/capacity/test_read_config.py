"""A config becomes a shape, or an error that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from mtpilot.capacity.errors import NotCovered
from mtpilot.capacity.read_config import ARCHITECTURES, read_config
from mtpilot.capacity.shape import GroupedAttention, LatentAttention

from .samples import MODELS, raw, shape


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.json")))
def test_every_sample_is_read(name: str) -> None:
    assert shape(name).architecture == raw(name)["architectures"][0]


def test_hybrid_layers_are_told_apart() -> None:
    found = shape("qwen3.5-397b-a17b")
    assert found.linear is not None
    assert (found.layers, found.attention_layers, found.linear.layers) == (60, 15, 45)
    assert found.multimodal
    assert found.bundled_draft_layers == 1
    assert found.declared_draft_layers is None


def test_attention_kinds() -> None:
    assert isinstance(shape("qwen3-30b-a3b").attention, GroupedAttention)
    latent = shape("deepseek-v3").attention
    assert isinstance(latent, LatentAttention)
    assert latent.index_head_dim is None
    sparse = shape("deepseek-v3.2").attention
    assert isinstance(sparse, LatentAttention)
    assert sparse.index_head_dim == 128


def test_a_head_size_that_is_not_given_is_hidden_size_by_heads() -> None:
    attention = shape("llama-3.1-8b").attention
    assert isinstance(attention, GroupedAttention)
    assert attention.head_dim == 128


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"architectures": None}, "architectures", "is missing"),
        ({"architectures": ["MambaForCausalLM"]}, "architectures", "MambaForCausalLM is not covered"),
        ({"architectures": ["GptOssForCausalLM"]}, "architectures", "covered are"),
        ({"hidden_size": None}, "hidden_size", "is missing"),
        ({"hidden_size": "4096"}, "hidden_size", "must be a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers", "must be a whole number"),
        ({"num_hidden_layers": -1}, "num_hidden_layers", "must be a whole number"),
        ({"vocab_size": None}, "vocab_size", "is missing"),
        ({"max_position_embeddings": None}, "max_position_embeddings", "is missing"),
        ({"sliding_window": 4096}, "sliding_window", "KV pool of their own"),
        ({"num_hidden_layers": 0}, "num_hidden_layers", "must be 1 or more, not 0"),
        ({"max_position_embeddings": 0}, "max_position_embeddings", "must be 1 or more, not 0"),
        ({"num_attention_heads": 0}, "num_attention_heads", "must be 1 or more, not 0"),
        ({"num_key_value_heads": 0}, "num_key_value_heads", "must be 1 or more, not 0"),
        ({"num_attention_heads": 8192}, "head_dim", "not enough for 8192 heads"),
        ({"quantization_config": ["fp8"]}, "quantization_config", "must be an object"),
    ],
)
def test_what_is_not_understood_is_named(change: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(NotCovered, match=words) as caught:
        read_config(raw("llama-3.1-8b") | change)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"full_attention_interval": 64}, "full_attention_interval", "64 leaves none of 48 layers with a KV cache"),
        ({"full_attention_interval": 1}, "full_attention_interval", "1 leaves none of 48 layers with recurrent states"),
        ({"full_attention_interval": 0}, "full_attention_interval", "must be 1 or more, not 0"),
        ({"linear_num_key_heads": 0}, "linear_num_key_heads", "must be 1 or more, not 0"),
        ({"linear_value_head_dim": 0}, "linear_value_head_dim", "must be 1 or more, not 0"),
    ],
)
def test_a_hybrid_model_has_layers_and_heads_of_both_kinds(change: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(NotCovered, match=words) as caught:
        read_config(raw("qwen3-next-80b-a3b") | change)
    assert caught.value.field == field


def test_a_sliding_window_that_is_off_is_no_window() -> None:
    assert read_config(raw("llama-3.1-8b") | {"sliding_window": 4096, "use_sliding_window": False}).layers == 32


def test_the_path_of_a_nested_field() -> None:
    document = raw("qwen3.5-27b")
    del document["text_config"]["linear_num_value_heads"]
    with pytest.raises(NotCovered) as caught:
        read_config(document)
    assert caught.value.field == "text_config.linear_num_value_heads"


@pytest.mark.parametrize(
    ("name", "change"), [("qwen3-30b-a3b", {"mlp_only_layers": [0]}), ("qwen3-next-80b-a3b", {"decoder_sparse_step": 2})]
)
def test_dense_layers_among_experts_are_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(NotCovered, match="dense layers among the expert layers"):
        read_config(raw(name) | change)


def test_shared_indexers_are_refused() -> None:
    with pytest.raises(NotCovered, match="share an indexer"):
        read_config(raw("deepseek-v3.2") | {"index_topk_freq": 4})


def test_mixtral_and_glm() -> None:
    llama = raw("llama-3.1-8b")
    mixtral = read_config(llama | {"architectures": ["MixtralForCausalLM"], "num_local_experts": 8})
    assert mixtral.experts is not None
    assert (mixtral.experts.count, mixtral.experts.intermediate_size) == (8, 14336)
    glm = llama | {"architectures": ["Glm4MoeForCausalLM"], "n_routed_experts": 160, "moe_intermediate_size": 1536}
    found = read_config(glm | {"n_shared_experts": 1, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1})
    assert found.bundled_draft_layers == found.declared_draft_layers == 1
    assert found.experts is not None
    assert found.experts.dense_layers == 3


def test_the_list_of_architectures_is_what_the_docs_say() -> None:
    text = (MODELS.parents[2] / "docs" / "capacity.md").read_text(encoding="utf-8")
    assert [name for name in ARCHITECTURES if f"`{name}`" not in text] == []
