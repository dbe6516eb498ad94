"""A Hugging Face `config.json` as a `ModelShape`.

Only architectures whose memory layout is described in this package are read. Others (sliding-window pools, Mamba-2, KDA,
DeepSeek-V4) are refused by name: a number for them would be a guess.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import NotCovered
from .shape import Experts, GatedDeltaNet, GroupedAttention, LatentAttention, ModelShape, Vision

Config = Mapping[str, Any]

_VISION_LAYERS = 24  # what SGLang takes where vision_config has no num_hidden_layers
_VISION_HIDDEN_SIZE = 1024


@dataclass(frozen=True, slots=True)
class _Fields:
    """Reads of one object of the file that name the path of what is missing."""

    values: Config
    path: str

    def whole(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            problem = "is missing" if value is None else f"must be a whole number, not {value!r}"
            raise NotCovered(f"{self.path}{name}", problem)
        return value

    def positive(self, name: str, default: int | None = None) -> int:
        value = self.whole(name, default)
        if value < 1:
            raise NotCovered(f"{self.path}{name}", f"must be 1 or more, not {value}")
        return value

    def optional(self, name: str) -> int | None:
        return None if self.values.get(name) is None else self.whole(name)

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None


def read_config(config: Config) -> ModelShape:
    """The shape of the model that a parsed `config.json` describes.

    Raises:
        NotCovered: the architecture is none of `ARCHITECTURES`, a field is missing, or a field asks for a memory layout that
            is not described here; the message names the field.
    """
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise NotCovered("architectures", "is missing: the model's class decides its memory layout")
    family = ARCHITECTURES.get(names[0])
    if family is None:
        raise NotCovered("architectures", f"{names[0]} is not covered; covered are {', '.join(sorted(ARCHITECTURES))}")
    nested = config.get("text_config")
    text = _Fields(nested, "text_config.") if isinstance(nested, Mapping) else _Fields(config, "")
    return family(names[0], config, text)


def _common(architecture: str, config: Config, text: _Fields) -> dict[str, Any]:
    _refuse_sliding_window(text)
    tied = text.values.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
    quantization = config.get("quantization_config") or text.values.get("quantization_config") or {}
    if not isinstance(quantization, Mapping):
        raise NotCovered("quantization_config", "must be an object")
    return {
        "architecture": architecture,
        "hidden_size": text.positive("hidden_size"),
        "layers": text.positive("num_hidden_layers"),
        "vocab_size": text.positive("vocab_size"),
        "tied_embeddings": bool(tied),
        "context_length": text.positive("max_position_embeddings"),
        "declared_draft_layers": text.optional("num_nextn_predict_layers"),
        "quantization": quantization,
    }


def _refuse_sliding_window(text: _Fields) -> None:
    if text.has("sliding_window") and text.values.get("use_sliding_window", True):
        raise NotCovered(f"{text.path}sliding_window", "layers with a window have a KV pool of their own, which is not covered")


def _grouped(text: _Fields, *, output_gate: bool = False) -> GroupedAttention:
    heads = text.positive("num_attention_heads")
    head_dim = text.optional("head_dim") or text.positive("hidden_size") // heads
    if head_dim < 1:
        raise NotCovered(f"{text.path}head_dim", f"hidden_size is not enough for {heads} heads")
    return GroupedAttention(heads=heads, kv_heads=text.positive("num_key_value_heads", heads), head_dim=head_dim, output_gate=output_gate)


def _dense(architecture: str, config: Config, text: _Fields) -> ModelShape:
    common = _common(architecture, config, text)
    return ModelShape(
        **common, attention_layers=common["layers"], intermediate_size=text.whole("intermediate_size"), attention=_grouped(text)
    )


def _every_layer_has_experts(text: _Fields) -> None:
    if text.values.get("mlp_only_layers") or text.whole("decoder_sparse_step", 1) != 1:
        raise NotCovered(f"{text.path}mlp_only_layers", "dense layers among the expert layers are not covered")


def _qwen_moe(architecture: str, config: Config, text: _Fields) -> ModelShape:
    common = _common(architecture, config, text)
    _every_layer_has_experts(text)
    experts = Experts(count=text.whole("num_experts"), intermediate_size=text.whole("moe_intermediate_size"))
    return ModelShape(**common, attention_layers=common["layers"], intermediate_size=0, attention=_grouped(text), experts=experts)


def _mixtral(architecture: str, config: Config, text: _Fields) -> ModelShape:
    common = _common(architecture, config, text)
    experts = Experts(count=text.whole("num_local_experts"), intermediate_size=text.whole("intermediate_size"))
    return ModelShape(**common, attention_layers=common["layers"], intermediate_size=0, attention=_grouped(text), experts=experts)


def _glm_moe(architecture: str, config: Config, text: _Fields) -> ModelShape:
    common = _common(architecture, config, text)
    return ModelShape(
        **common,
        attention_layers=common["layers"],
        intermediate_size=text.whole("intermediate_size"),
        attention=_grouped(text),
        experts=_routed_experts(text),
        bundled_draft_layers=common["declared_draft_layers"] or 0,
    )


def _routed_experts(text: _Fields) -> Experts | None:
    if not text.has("n_routed_experts"):
        return None
    size = text.whole("moe_intermediate_size")
    return Experts(
        count=text.whole("n_routed_experts"),
        intermediate_size=size,
        shared_intermediate_size=size * text.whole("n_shared_experts", 0),
        dense_layers=text.whole("first_k_dense_replace", 0),
    )


def _deepseek(architecture: str, config: Config, text: _Fields) -> ModelShape:
    common = _common(architecture, config, text)
    return ModelShape(
        **common,
        attention_layers=common["layers"],
        intermediate_size=text.whole("intermediate_size"),
        attention=_latent(architecture, text),
        experts=_routed_experts(text),
        bundled_draft_layers=common["declared_draft_layers"] or 0,
    )


def _latent(architecture: str, text: _Fields) -> LatentAttention:
    sparse = architecture != "DeepseekV2ForCausalLM" and text.has("index_topk")
    for name in ("indexer_types", "cli_factor", "index_topk_pattern", "index_topk_freq", "index_kpool"):
        if sparse and text.has(name):
            raise NotCovered(f"{text.path}{name}", "layers that share an indexer are not covered")
    return LatentAttention(
        heads=text.positive("num_attention_heads"),
        kv_lora_rank=text.positive("kv_lora_rank"),
        qk_rope_head_dim=text.whole("qk_rope_head_dim"),
        qk_nope_head_dim=text.whole("qk_nope_head_dim"),
        v_head_dim=text.whole("v_head_dim"),
        q_lora_rank=text.optional("q_lora_rank"),
        index_head_dim=text.whole("index_head_dim") if sparse else None,
        index_heads=text.whole("index_n_heads") if sparse else None,
    )


def _gated_delta_net(architecture: str, config: Config, text: _Fields) -> ModelShape:
    """Qwen3-Next and Qwen3.5/3.6/3.8; `configs/qwen3_next.py` makes every n-th layer a full attention layer."""
    common = _common(architecture, config, text)
    interval, layers = text.positive("full_attention_interval"), common["layers"]
    full = layers // interval
    if not 0 < full < layers:
        kind = "recurrent states" if full else "a KV cache"
        raise NotCovered(f"{text.path}full_attention_interval", f"{interval} leaves none of {layers} layers with {kind}")
    sparse = text.has("num_experts") and text.whole("num_experts") > 0
    if sparse:
        _every_layer_has_experts(text)
    dtype = text.values.get("mamba_ssm_dtype")
    return ModelShape(
        **common,
        attention_layers=full,
        intermediate_size=0 if sparse else text.whole("intermediate_size"),
        attention=_grouped(text, output_gate=True),
        linear=GatedDeltaNet(
            layers=layers - full,
            key_heads=text.positive("linear_num_key_heads"),
            value_heads=text.positive("linear_num_value_heads"),
            key_head_dim=text.positive("linear_key_head_dim"),
            value_head_dim=text.positive("linear_value_head_dim"),
            conv_kernel=text.positive("linear_conv_kernel_dim"),
            dtype=dtype if isinstance(dtype, str) else None,
        ),
        experts=Experts(
            count=text.whole("num_experts"),
            intermediate_size=text.whole("moe_intermediate_size"),
            shared_intermediate_size=text.whole("shared_expert_intermediate_size"),
        )
        if sparse
        else None,
        vision=_vision(config),
        multimodal=architecture.endswith("ForConditionalGeneration"),
        bundled_draft_layers=1,
    )


def _vision(config: Config) -> Vision | None:
    values = config.get("vision_config")
    if not isinstance(values, Mapping):
        return None
    part = _Fields(values, "vision_config.")
    return Vision(
        parameters=_vision_parameters(part),
        default_layers=part.whole("num_hidden_layers", _VISION_LAYERS),
        default_hidden_size=part.whole("hidden_size", _VISION_HIDDEN_SIZE),
    )


def _vision_parameters(part: _Fields) -> int:
    """Blocks, patch embedding, positions and merger of a Qwen3-VL tower, biases left out."""
    depth, hidden = part.whole("depth"), part.whole("hidden_size")
    block = 4 * hidden**2 + 2 * hidden * part.whole("intermediate_size")
    patch = part.whole("in_channels", 3) * part.whole("temporal_patch_size", 2) * part.whole("patch_size") ** 2 * hidden
    merged = hidden * part.whole("spatial_merge_size", 2) ** 2
    merger = merged**2 + merged * part.whole("out_hidden_size")
    return depth * block + patch + part.whole("num_position_embeddings", 0) * hidden + merger


ARCHITECTURES: Mapping[str, Callable[[str, Config, _Fields], ModelShape]] = {
    "LlamaForCausalLM": _dense,
    "MistralForCausalLM": _dense,
    "Qwen2ForCausalLM": _dense,
    "Qwen3ForCausalLM": _dense,
    "Qwen3MoeForCausalLM": _qwen_moe,
    "MixtralForCausalLM": _mixtral,
    "Glm4MoeForCausalLM": _glm_moe,
    "DeepseekV2ForCausalLM": _deepseek,
    "DeepseekV3ForCausalLM": _deepseek,
    "DeepseekV32ForCausalLM": _deepseek,
    "Qwen3NextForCausalLM": _gated_delta_net,
    "Qwen3_5ForCausalLM": _gated_delta_net,
    "Qwen3_5MoeForCausalLM": _gated_delta_net,
    "Qwen3_5ForConditionalGeneration": _gated_delta_net,
    "Qwen3_5MoeForConditionalGeneration": _gated_delta_net,
}
