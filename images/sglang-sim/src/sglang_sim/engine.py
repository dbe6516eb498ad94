"""What a server became after its arguments were resolved: mode, slots, KV tokens, context.

SGLang resolves its arguments once at start and never again; so does this. The formulas are those of 0.5.23
(`resolve_max_num_reqs` and the speculative hook's limit of 48), with the curve standing in for the GPU's memory.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sglang_sim.curves import Curves, ModeCurve
from sglang_sim.flags import known_flags
from sglang_sim.settings import Settings

SPECULATIVE_MAX_RUNNING_REQUESTS = 48
"""What 0.5.23 sets when speculation is on and --max-running-requests is not given."""
KNOWN_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")
_KV_TOKENS_PER_SLOT = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A resolved server. Token counts are totals of the replica; `slots` is the effective max_running_requests."""

    mode: str
    arguments: argparse.Namespace
    launch_command: str
    model_path: str
    served_model_name: str
    algorithm: str | None
    num_steps: int
    num_draft_tokens: int
    requested_slots: int | None
    slots: int
    kv_tokens: int
    context_length: int
    accept_length: float
    curve: ModeCurve
    given: frozenset[str]

    @property
    def max_input_tokens(self) -> int:
        """The longest prompt that is taken (the recorded server keeps 6 tokens back)."""
        return min(self.context_length, self.kv_tokens) - 6

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument's value, `default` where it is None."""
        value = getattr(self.arguments, name)
        return default if value is None else value


def _slots(requested: int | None, kv_tokens: int, context_length: int, curve: ModeCurve) -> int:
    estimate = min(max(int(kv_tokens / context_length * 512), 2048), 4096)
    limit = estimate if requested is None else requested
    return max(1, min(limit, kv_tokens // 2, curve.slots))


def resolve(arguments: argparse.Namespace, argv: Sequence[str], curves: Curves, settings: Settings) -> Engine:
    """Resolve parsed arguments over `curves`; ValueError for what 0.5.23 rejects in resolution, or a mode without a curve."""
    algorithm: str | None = arguments.speculative_algorithm
    if algorithm is not None and algorithm.upper() not in KNOWN_ALGORITHMS:
        raise ValueError(f"Unknown speculative algorithm name: {algorithm}")
    mode = "batch" if algorithm is None else "mtp"
    if mode not in curves.modes:
        raise ValueError(f"curve {curves.name!r} has no mode {mode!r}")
    curve = curves.modes[mode]
    topk = arguments.speculative_eagle_topk
    steps = arguments.speculative_num_steps
    if steps is None and (topk is not None or arguments.speculative_num_draft_tokens is not None):
        raise ValueError("speculative_eagle_topk and speculative_num_draft_tokens need speculative_num_steps")
    steps = 3 if steps is None else steps
    draft_tokens = steps + 1 if topk in {None, 1} else arguments.speculative_num_draft_tokens or steps + 1
    requested: int | None = arguments.max_running_requests
    if requested is None and algorithm is not None:
        requested = SPECULATIVE_MAX_RUNNING_REQUESTS
    context_length = arguments.context_length or curves.context_length
    kv_tokens = (
        arguments.max_total_tokens or settings.kv_tokens or curve.kv_tokens or max(context_length, curve.slots * _KV_TOKENS_PER_SLOT)
    )
    accept_length = 1.0 if algorithm is None else settings.accept_length or curve.accept_length
    defaults = {flag["dest"]: flag.get("default") for flag in known_flags()}
    return Engine(
        mode=mode,
        arguments=arguments,
        launch_command=shlex.join(argv),
        model_path=arguments.model_path,
        served_model_name=arguments.served_model_name or arguments.model_path,
        algorithm={"NEXTN": "EAGLE"}.get(algorithm.upper(), algorithm.upper()) if algorithm else None,
        num_steps=steps if algorithm else 0,
        num_draft_tokens=draft_tokens if algorithm else 0,
        requested_slots=requested,
        slots=_slots(requested, kv_tokens, context_length, curve),
        kv_tokens=kv_tokens,
        context_length=context_length,
        accept_length=accept_length,
        curve=curve,
        given=frozenset(dest for dest, default in defaults.items() if getattr(arguments, dest, default) != default),
    )
