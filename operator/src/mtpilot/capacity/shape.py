"""A model's geometry: what decides the bytes of its weights, of a KV cell and of a recurrent state.

All sizes are of the whole model; the formulas divide them by the tensor-parallel ranks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAttention:
    """Multi-head, grouped-query or multi-query attention. `output_gate`: the query projection also makes a gate."""

    heads: int
    kv_heads: int
    head_dim: int
    output_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA); with `index_head_dim` it is sparse (DSA) and keeps an index key for each token."""

    heads: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None
    index_head_dim: int | None = None
    index_heads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Linear attention with a recurrent state per request; `dtype` is that of the state, None where the config names none."""

    layers: int
    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    dtype: str | None = None

    @property
    def key_size(self) -> int:
        return self.key_heads * self.key_head_dim

    @property
    def value_size(self) -> int:
        return self.value_heads * self.value_head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Mixture of experts. `shared_intermediate_size` is of all shared experts together; the first `dense_layers` have none."""

    count: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """The vision tower: its parameters, and the two numbers that SGLang's memory default looks at."""

    parameters: int
    default_layers: int
    default_hidden_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """One model.

    Attributes:
        architecture: the first of `architectures`.
        attention_layers: layers with a KV cache; the others are linear attention.
        intermediate_size: of the dense MLP; 0 where every layer has experts.
        context_length: `max_position_embeddings`.
        bundled_draft_layers: MTP layers that SGLang loads from this checkpoint in draft mode; 0: it needs a draft model.
        declared_draft_layers: `num_nextn_predict_layers` of the config, None without it.
        multimodal: SGLang runs its vision part.
        quantization: `quantization_config` as it is in the file.
    """

    architecture: str
    hidden_size: int
    layers: int
    attention_layers: int
    vocab_size: int
    tied_embeddings: bool
    context_length: int
    intermediate_size: int
    attention: GroupedAttention | LatentAttention
    linear: GatedDeltaNet | None = None
    experts: Experts | None = None
    vision: Vision | None = None
    multimodal: bool = False
    bundled_draft_layers: int = 0
    declared_draft_layers: int | None = None
    quantization: Mapping[str, Any] = field(default_factory=dict)
