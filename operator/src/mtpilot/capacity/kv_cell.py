"""Bytes of KV cache for one token on one GPU, and what a draft adds to them."""

from dataclasses import dataclass

from .errors import NotCovered
from .launch import Launch
from .shape import LatentAttention, ModelShape

_ELEMENT_BYTES = {"bfloat16": 2, "bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}
_FP8 = "fp8_e4m3"
_SCALE_BLOCK = 128  # one float32 scale for so many 8-bit values of the latent and of the index key
_SCALE_BYTES = 4
_ROPE_BYTES = 2  # DSA keeps the rotary part in bfloat16, whatever the cache's dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCell:
    """Bytes for one token. `uncounted` is allocated for the draft as well, but not in SGLang's sum: it comes out of the headroom."""

    target: int
    draft: int = 0
    uncounted: int = 0

    @property
    def counted(self) -> int:
        return self.target + self.draft


def cache_dtype(shape: ModelShape, launch: Launch) -> str:
    """The KV cache's dtype: --kv-cache-dtype; `auto` is FP8 where a ModelOpt checkpoint says so, else the model's 16 bits.

    Source: `mem_cache/kv_cache_dtype.py: configure_kv_cache_dtype`, `arg_groups/overrides.py: _dsa_kv_cache_dtype_default`.

    Raises:
        NotCovered: a 4-bit or MXFP8 cache, or `auto` for a DSA model, which depends on the GPU.
    """
    asked = launch.kv_cache_dtype
    if asked != "auto":
        if asked not in _ELEMENT_BYTES:
            raise NotCovered("--kv-cache-dtype", f"{asked} is not covered; covered are auto, {', '.join(_ELEMENT_BYTES)}")
        return asked
    if isinstance(shape.attention, LatentAttention) and shape.attention.index_head_dim is not None:
        raise NotCovered("--kv-cache-dtype", "auto is fp8_e4m3 or bfloat16 by the GPU for this model: say which")
    return _FP8 if str(shape.quantization.get("kv_cache_quant_algo", "")).upper() == "FP8" else "bfloat16"


def kv_cell(shape: ModelShape, launch: Launch, *, draft_layers: int = 0) -> KvCell:
    """Bytes of one token on one GPU; `draft_layers` are those of the draft that runs, 0 without speculation.

    Multi-head attention: KV heads of a rank × 2 × head size × layers × bytes; latent attention: (rank + rotary part) × layers ×
    bytes on every rank; DSA in FP8: with scales, a 16-bit rotary part and an index key. EAGLE adds `int(cell × draft layers /
    layers)`; for a draft without a path only where the target's config declares `num_nextn_predict_layers`.

    Source: `model_executor/pool_configurator.py: DefaultPoolConfigurator`, `mem_cache/kv_cache_configurator.py:
    calculate_mla_kv_cache_dim`, `model_executor/model_runner_components/spec_aux_hidden_state.py`.
    """
    dtype, layers = cache_dtype(shape, launch), shape.attention_layers
    attention = _attention_bytes(shape, launch.tp_size, dtype) * layers
    index = _index_bytes(shape)
    target = attention + index * layers
    draft = int(attention * draft_layers / layers) + index * draft_layers if layers else 0
    if launch.speculation is not None and _draft_is_counted(shape, launch.speculation.draft_path):
        return KvCell(target=target, draft=draft)
    return KvCell(target=target, uncounted=draft)


def _draft_is_counted(shape: ModelShape, draft_path: bool) -> bool:
    return draft_path or shape.declared_draft_layers is not None


def _attention_bytes(shape: ModelShape, tp_size: int, dtype: str) -> int:
    attention, element = shape.attention, _ELEMENT_BYTES[dtype]
    if not isinstance(attention, LatentAttention):
        return max(1, attention.kv_heads // tp_size) * 2 * attention.head_dim * element
    if attention.index_head_dim is not None and dtype == _FP8:
        scales = attention.kv_lora_rank // _SCALE_BLOCK * _SCALE_BYTES
        return attention.kv_lora_rank + scales + attention.qk_rope_head_dim * _ROPE_BYTES
    return (attention.kv_lora_rank + attention.qk_rope_head_dim) * element


def _index_bytes(shape: ModelShape) -> int:
    attention = shape.attention
    if not isinstance(attention, LatentAttention) or attention.index_head_dim is None:
        return 0
    return attention.index_head_dim + attention.index_head_dim // _SCALE_BLOCK * _SCALE_BYTES
