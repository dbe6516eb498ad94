"""Bytes of the weights on one GPU, from the config alone.

SGLang measures them (`Load weight end … mem usage`); before a start they can only be counted. Norms, biases and the copies that
some kernels make are left out: expect an error of 1–3 %, and give the measured value where there is one.
"""

from dataclasses import dataclass

from .errors import NotCovered
from .quantization import FULL_BYTES, Quantization, read_quantization
from .shape import GatedDeltaNet, GroupedAttention, LatentAttention, ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes on each GPU while SGLang sizes its pools; `draft` is what a draft from this checkpoint takes then."""

    target: float
    draft: float


def count_weights(shape: ModelShape, tp_size: int) -> Weights:
    """Count the weights of target and bundled draft.

    The draft is one full attention layer for each MTP layer, a projection of 2 × hidden size, and a copy of embedding and
    head of its own: SGLang 0.5.23 gives the draft the target's only after the KV pool is sized
    (`speculative/eagle_worker_v2.py: alloc_memory_pool` → `init_lm_head`), so the pool pays for both.

    Raises:
        NotCovered: the quantisation is unknown.
    """
    quantization = read_quantization(shape.quantization)
    vocabulary = FULL_BYTES * shape.vocab_size * shape.hidden_size / tp_size
    tables = vocabulary * (1 if shape.tied_embeddings else 2)
    vision = FULL_BYTES * shape.vision.parameters / tp_size if shape.vision is not None and shape.multimodal else 0.0
    target = tables + vision + _layers(shape, quantization, tp_size)
    draft = 0.0
    if shape.bundled_draft_layers:
        projection = FULL_BYTES * 2 * shape.hidden_size**2
        draft = tables + shape.bundled_draft_layers * (_draft_layer(shape, quantization, tp_size) + projection)
    return Weights(target=target, draft=draft)


def check_tensor_parallel(shape: ModelShape, tp_size: int) -> None:
    """Refuse a number of ranks that SGLang cannot divide the model by.

    Raises:
        NotCovered: heads do not divide evenly.
    """
    linear = shape.linear
    counts = {"num_attention_heads": shape.attention.heads}
    if linear is not None:
        counts["linear_num_value_heads"] = linear.value_heads
        counts["linear_num_key_heads"] = linear.key_heads
    for name, heads in counts.items():
        if heads % tp_size:
            raise NotCovered("--tp-size", f"{tp_size} does not divide {name} = {heads}")
    attention = shape.attention
    if isinstance(attention, GroupedAttention) and attention.kv_heads % tp_size and tp_size % attention.kv_heads:
        raise NotCovered("--tp-size", f"{tp_size} neither divides num_key_value_heads = {attention.kv_heads} nor is a multiple of it")


def _layers(shape: ModelShape, quantization: Quantization, tp_size: int) -> float:
    total = shape.attention_layers * _attention(shape, tp_size) * quantization.mean_bytes("self_attn", shape.layers)
    if shape.linear is not None:
        linear = _delta_net(shape.linear, shape.hidden_size) / tp_size
        total += shape.linear.layers * linear * quantization.mean_bytes("linear_attn", shape.layers)
    return total + _feed_forward(shape, quantization, tp_size)


def _attention(shape: ModelShape, tp_size: int) -> float:
    attention, hidden = shape.attention, shape.hidden_size
    if isinstance(attention, LatentAttention):
        return _latent(attention, hidden, tp_size)
    return _grouped(attention, hidden, tp_size)


def _grouped(attention: GroupedAttention, hidden: int, tp_size: int) -> float:
    """Weights of one layer on one rank; with fewer KV heads than ranks every rank keeps one."""
    heads, kv_heads = attention.heads / tp_size, max(1, attention.kv_heads // tp_size)
    return hidden * attention.head_dim * ((3 if attention.output_gate else 2) * heads + 2 * kv_heads)


def _latent(attention: LatentAttention, hidden: int, tp_size: int) -> float:
    """Weights of one layer on one rank; the down projections and the indexer are on every rank."""
    query_dim = attention.qk_nope_head_dim + attention.qk_rope_head_dim
    rank = attention.q_lora_rank
    query = hidden * rank + rank * attention.heads * query_dim / tp_size if rank else hidden * attention.heads * query_dim / tp_size
    latent = hidden * (attention.kv_lora_rank + attention.qk_rope_head_dim)
    unfold = attention.kv_lora_rank * attention.heads * (attention.qk_nope_head_dim + attention.v_head_dim) / tp_size
    output = attention.heads * attention.v_head_dim * hidden / tp_size
    index = 0.0
    if attention.index_head_dim is not None and attention.index_heads is not None:
        index = attention.index_head_dim * (attention.index_heads * (rank or hidden) + hidden) + attention.index_heads * hidden
    return query + latent + unfold + output + index


def _delta_net(linear: GatedDeltaNet, hidden: int) -> float:
    projections = hidden * (2 * linear.key_size + 2 * linear.value_size + 2 * linear.value_heads)
    return projections + linear.value_size * hidden + (2 * linear.key_size + linear.value_size) * linear.conv_kernel


def _feed_forward(shape: ModelShape, quantization: Quantization, tp_size: int) -> float:
    dense_layers = shape.layers if shape.experts is None else shape.experts.dense_layers
    dense = dense_layers * 3 * shape.hidden_size * shape.intermediate_size / tp_size * quantization.mean_bytes("mlp", shape.layers)
    return dense + (shape.layers - dense_layers) * _expert_layer(shape, quantization, tp_size)


def _expert_layer(shape: ModelShape, quantization: Quantization, tp_size: int, *, draft: bool = False) -> float:
    experts, hidden = shape.experts, shape.hidden_size
    if experts is None:
        return 0.0
    routed = experts.count * 3 * hidden * experts.intermediate_size / tp_size
    shared = 3 * hidden * experts.shared_intermediate_size / tp_size
    router = FULL_BYTES * hidden * experts.count
    kinds = ("mtp", "mtp") if draft else ("experts", "shared_expert")
    return router + routed * quantization.mean_bytes(kinds[0], shape.layers) + shared * quantization.mean_bytes(kinds[1], shape.layers)


def _draft_layer(shape: ModelShape, quantization: Quantization, tp_size: int) -> float:
    bytes_per_weight = quantization.mean_bytes("mtp", shape.layers)
    attention = _attention(shape, tp_size) * bytes_per_weight
    if shape.experts is None:
        return attention + 3 * shape.hidden_size * shape.intermediate_size / tp_size * bytes_per_weight
    return attention + _expert_layer(shape, quantization, tp_size, draft=True)
