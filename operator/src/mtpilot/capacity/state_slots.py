"""State slots of hybrid models: recurrent states are preallocated, several for each running request.

With speculation a running request also holds one state per draft token, so the same memory gives fewer slots.
"""

from dataclasses import dataclass

from .errors import DoesNotFit
from .launch import Launch
from .quantity import size
from .shape import GatedDeltaNet

_CONV_BYTES = 2  # bfloat16, unless SGLANG_MAMBA_CONV_DTYPE says otherwise
_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_DEFAULT_STATE_DTYPE = "float32"
_BASE_SLOTS_PER_REQUEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePool:
    """States on one GPU.

    Attributes:
        slots: states of the pool (SGLang's max_mamba_cache_size), without its padding slot.
        per_request: slots that SGLang reckons for a running request.
        slot_bytes: bytes of one state.
        states_bytes: bytes of the pool, padding included.
        drafts_bytes: bytes that the budget pays for states of draft tokens.
    """

    slots: int
    per_request: int
    slot_bytes: int
    states_bytes: int
    drafts_bytes: int

    @property
    def requests(self) -> int:
        return self.slots // self.per_request


def state_dtype(linear: GatedDeltaNet, launch: Launch) -> str:
    """--mamba-ssm-dtype, else the config's `mamba_ssm_dtype`, else float32 (`configs/mamba_utils.py: mamba2_state_dtype`)."""
    dtype = launch.mamba_ssm_dtype or linear.dtype
    return dtype if dtype in _STATE_BYTES else _DEFAULT_STATE_DTYPE


def slot_bytes(linear: GatedDeltaNet, launch: Launch) -> int:
    """Bytes of one state on one rank: layers × (convolution window in 16 bits + value heads × value size × key size in its dtype).

    Source: `configs/mamba_utils.py: mamba_cache_per_req`, `configs/qwen3_next.py: mamba2_cache_params`.
    """
    tp_size = launch.tp_size
    window = (2 * linear.key_size + linear.value_size) // tp_size * (linear.conv_kernel - 1) * _CONV_BYTES
    state = linear.value_heads // tp_size * linear.value_head_dim * linear.key_head_dim
    return linear.layers * (window + state * _STATE_BYTES[state_dtype(linear, launch)])


def strategy(launch: Launch) -> str:
    """`auto` is extra_buffer with overlap scheduling or paging, else no_buffer (`arg_groups/overrides.py`)."""
    if launch.mamba_radix_cache_strategy != "auto":
        return launch.mamba_radix_cache_strategy
    return "extra_buffer" if not launch.disable_overlap_schedule or launch.page_size > 1 else "no_buffer"


def slots_per_request(launch: Launch) -> int:
    """1 without radix cache; no_buffer 3; extra_buffer 5, without overlap scheduling 4; extra_buffer_lazy 4.

    Source: `mem_cache/kv_cache_configurator.py: _calculate_mamba_ratio`, `mem_cache/allocation_sizing.py:
    get_mamba_tracking_slots`; without SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK.
    """
    if launch.disable_radix_cache:
        return 1
    extra = {"no_buffer": 0, "extra_buffer_lazy": 1, "extra_buffer": 1 if launch.disable_overlap_schedule else 2}
    return _BASE_SLOTS_PER_REQUEST + extra[strategy(launch)]


def state_pool(linear: GatedDeltaNet, launch: Launch, rest_bytes: float) -> StatePool:
    """Split `rest_bytes` (what weights and headroom leave) between states and KV cache, as the engine does.

    Source: `mem_cache/kv_cache_configurator.py: _handle_max_mamba_cache`, with D draft tokens, s bytes a slot and r slots a request:
    a given --max-mamba-cache-size K is taken; without radix cache K is --max-running-requests; else, with B = rest × ratio /
    (1 + ratio), K = (B − s(1 + D)) // (s(1 + D/r)) with speculation and (B − s) // s without.
    States of draft tokens are s × (min(max running requests, K // r) + 1) × D.

    Raises:
        DoesNotFit: not one state fits.
    """
    one, ratio, drafts = slot_bytes(linear, launch), slots_per_request(launch), launch.draft_tokens
    requested = launch.requested_slots
    if launch.max_mamba_cache_size is not None:
        slots = launch.max_mamba_cache_size
    elif launch.disable_radix_cache and requested is not None:
        slots = requested
    else:
        budget = rest_bytes * launch.mamba_full_memory_ratio / (1 + launch.mamba_full_memory_ratio)
        slots = int((budget - one * (1 + drafts)) // (one * (1 + drafts / ratio)))
    if slots <= 0:
        raise DoesNotFit(
            f"no memory for the state of one request: {size(rest_bytes)} left for states and KV cache, {size(one)} a state; "
            "raise --mem-fraction-static or use more GPUs"
        )
    running = slots // ratio if requested is None else min(requested, slots // ratio)
    drafts_bytes = one * (running + 1) * drafts if launch.speculation is not None else 0
    return StatePool(slots=slots, per_request=ratio, slot_bytes=one, states_bytes=(slots + 1) * one, drafts_bytes=drafts_bytes)
