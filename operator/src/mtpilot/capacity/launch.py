"""The launch arguments that decide slots and memory, with SGLang 0.5.23's defaults.

Arguments that change the memory layout itself (pipeline or context parallelism, attention DP, unified memory, ReplaySSM,
offloading) are refused: the formulas here would be wrong with them, not just imprecise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import NotCovered

DEFAULT_SLOTS_WITH_SPECULATION = 48
STATE_DTYPES = ("float32", "bfloat16", "float16")
STRATEGIES = ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy")
ADAPTIVE_MOST_DRAFT_TOKENS = 8  # SGLang's own table goes up to 7 steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """An EAGLE-family draft. `draft_path`: --speculative-draft-model-path is given; `own_table`: the adaptive table is not SGLang's."""

    num_steps: int = 3
    eagle_topk: int = 1
    num_draft_tokens: int = 4
    draft_path: bool = False
    adaptive: bool = False
    own_table: bool = False

    @property
    def reserved_tokens(self) -> int:
        """KV tokens kept ahead of a request's text (`mem_cache/allocation_sizing.py: get_alloc_reserve_per_decode`, page size 1)."""
        return 2 * max(self.num_steps * self.eagle_topk, self.num_draft_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One server's arguments, in SGLang's names; None is the engine's own default."""

    tp_size: int = 1
    context_length: int | None = None
    max_running_requests: int | None = None
    mem_fraction_static: float | None = None
    max_total_tokens: int | None = None
    page_size: int = 1
    chunked_prefill_size: int | None = None
    cuda_graph_max_bs_decode: int | None = None
    kv_cache_dtype: str = "auto"
    mamba_ssm_dtype: str | None = None
    mamba_radix_cache_strategy: str = "auto"
    mamba_full_memory_ratio: float = 0.9
    max_mamba_cache_size: int | None = None
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    speculation: Speculation | None = None

    @property
    def requested_slots(self) -> int | None:
        """--max-running-requests; with speculation 48 where it is not given, else None.

        `arg_groups/speculative_hook.py: _handle_eagle_family`.
        """
        if self.max_running_requests is not None or self.speculation is None:
            return self.max_running_requests
        return DEFAULT_SLOTS_WITH_SPECULATION

    @property
    def draft_tokens(self) -> int:
        return self.speculation.num_draft_tokens if self.speculation is not None else 0


Flags = Mapping[str, str | None]


def launch_from_flags(flags: Flags) -> Launch:
    """Read an argument list, taken apart into flag → value (None for a switch). Flags without a part in capacity are passed over.

    Raises:
        NotCovered: a flag changes the layout, or a value cannot be read.
    """
    _refuse_layouts(flags)
    values = {name: read(flag, flags[flag]) for flag, (name, read) in _READ.items() if flag in flags}
    launch = Launch(**values, speculation=_speculation(flags))
    strategy = launch.mamba_radix_cache_strategy
    if strategy not in STRATEGIES:
        raise NotCovered("--mamba-radix-cache-strategy", f"must be one of {', '.join(STRATEGIES)}, not {strategy}")
    if launch.mamba_ssm_dtype is not None and launch.mamba_ssm_dtype not in STATE_DTYPES:
        raise NotCovered("--mamba-ssm-dtype", f"must be one of {', '.join(STATE_DTYPES)}, not {launch.mamba_ssm_dtype}")
    return launch


def _whole(flag: str, value: str | None) -> int:
    try:
        number = int(value or "")
    except ValueError as error:
        raise NotCovered(flag, f"must be a whole number, not {value!r}") from error
    return number


def _positive(flag: str, value: str | None) -> int:
    number = _whole(flag, value)
    if number < 1:
        raise NotCovered(flag, f"must be 1 or more, not {number}")
    return number


def _below(most: float, flag: str, value: str | None) -> float:
    try:
        number = float(value or "")
    except ValueError as error:
        raise NotCovered(flag, f"must be a number, not {value!r}") from error
    if not 0 < number < most:  # also refuses NaN
        raise NotCovered(flag, f"must be above 0 and below {most:g}, not {value}")
    return number


def _ratio(flag: str, value: str | None) -> float:
    return _below(100, flag, value)


def _fraction(flag: str, value: str | None) -> float:
    return _below(1, flag, value)


def _text(flag: str, value: str | None) -> str:
    if not value:
        raise NotCovered(flag, "needs a value")
    return value


def _switch(_flag: str, _value: str | None) -> bool:
    return True


_READ: Mapping[str, tuple[str, Callable[[str, str | None], Any]]] = {
    "--tp-size": ("tp_size", _positive),
    "--context-length": ("context_length", _positive),
    "--max-running-requests": ("max_running_requests", _positive),
    "--mem-fraction-static": ("mem_fraction_static", _fraction),
    "--max-total-tokens": ("max_total_tokens", _positive),
    "--page-size": ("page_size", _positive),
    "--chunked-prefill-size": ("chunked_prefill_size", _whole),
    "--cuda-graph-max-bs-decode": ("cuda_graph_max_bs_decode", _positive),
    "--kv-cache-dtype": ("kv_cache_dtype", _text),
    "--mamba-ssm-dtype": ("mamba_ssm_dtype", _text),
    "--mamba-radix-cache-strategy": ("mamba_radix_cache_strategy", _text),
    "--mamba-full-memory-ratio": ("mamba_full_memory_ratio", _ratio),
    "--max-mamba-cache-size": ("max_mamba_cache_size", _positive),
    "--disable-radix-cache": ("disable_radix_cache", _switch),
    "--disable-overlap-schedule": ("disable_overlap_schedule", _switch),
}

_LAYOUT_SWITCHES = (
    "--enable-hisparse",
    "--enable-kv-cache-sharding",
    "--enable-linear-replayssm",
    "--enable-linear-replayssm-spec",
    "--enable-multi-layer-eagle",
    "--enable-unified-memory",
    "--enable-dp-attention",
    "--json-model-override-args",
    "--uno-lora-path",
)
_LAYOUT_SIZES = ("--pp-size", "--dp-size", "--attn-dp-size", "--attn-cp-size", "--dcp-size")
_LAYOUT_AMOUNTS = ("--cpu-offload-gb", "--offload-group-size")


def _refuse_layouts(flags: Flags) -> None:
    for flag in _LAYOUT_SWITCHES:
        if flag in flags:
            raise NotCovered(flag, "changes how memory is laid out, which is not covered")
    for names, neutral in ((_LAYOUT_SIZES, 1), (_LAYOUT_AMOUNTS, 0)):
        for flag in names:
            if flag in flags and _whole(flag, flags[flag]) > neutral:
                raise NotCovered(flag, f"only {neutral} is covered")
    if flags.get("--disaggregation-mode", "null") != "null":
        raise NotCovered("--disaggregation-mode", "prefill and decode servers are not covered")


def _speculation(flags: Flags) -> Speculation | None:
    """With top-k 1 always one draft token more than steps (`arg_groups/speculative_hook.py: _handle_eagle_family`)."""
    algorithm = flags.get("--speculative-algorithm")
    if algorithm is None:
        return None
    if algorithm.upper() not in ("NEXTN", "EAGLE", "EAGLE3"):
        raise NotCovered("--speculative-algorithm", f"{algorithm} is not covered; covered are NEXTN, EAGLE and EAGLE3")
    steps = _positive("--speculative-num-steps", flags.get("--speculative-num-steps"))
    topk = _positive("--speculative-eagle-topk", flags.get("--speculative-eagle-topk", "1"))
    tokens = steps + 1
    if topk > 1:
        tokens = _positive("--speculative-num-draft-tokens", flags.get("--speculative-num-draft-tokens"))
    return Speculation(
        num_steps=steps,
        eagle_topk=topk,
        num_draft_tokens=tokens,
        draft_path=flags.get("--speculative-draft-model-path") is not None,
        adaptive="--speculative-adaptive" in flags,
        own_table="--speculative-adaptive-config" in flags,
    )
