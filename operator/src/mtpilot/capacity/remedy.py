"""What to change first for more slots: the order is by price, and a flip is the dearest.

1. raise --max-running-requests: costs nothing while memory lasts, and with speculation SGLang stops at 48 by itself;
2. recurrent states in bfloat16: half the memory of a state (answers may differ in the last digits);
3. extra_buffer_lazy: one state less for each request;
4. an FP8 KV cache, where KV tokens bind;
5. fewer draft tokens: each keeps a state of its own, but each step yields fewer tokens;
6. flip the replica to batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .launch import Launch
from .limits import Limit
from .state_slots import strategy

RAISE = "--max-running-requests"
FLIP = "flip to batch"
_MOST_SLOTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change: in words, and the arguments after it; None: another mode.

    `together`: --max-running-requests has to be raised with it, to what memory then holds.
    """

    text: str
    launch: Launch | None
    together: bool = False


def steps(launch: Launch, limit: Limit, *, hybrid: bool, ssm_dtype: str | None = None) -> Iterator[Step]:
    """All changes that could help, in order. `ssm_dtype`: the states' dtype in force, where the config sets it."""
    together = limit is Limit.MAX_RUNNING_REQUESTS
    if together:
        launch = replace(launch, max_running_requests=_MOST_SLOTS)
        yield Step(text=RAISE, launch=launch, together=True)
    for text, changed in _memory_steps(launch, limit, hybrid=hybrid, ssm_dtype=ssm_dtype or launch.mamba_ssm_dtype):
        yield Step(text=text, launch=changed, together=together)
    if launch.speculation is not None:
        yield Step(text=FLIP, launch=None)


def _memory_steps(launch: Launch, limit: Limit, *, hybrid: bool, ssm_dtype: str | None) -> Iterator[tuple[str, Launch]]:
    if hybrid and ssm_dtype in (None, "float32"):
        yield "--mamba-ssm-dtype bfloat16", replace(launch, mamba_ssm_dtype="bfloat16")
    if hybrid and strategy(launch) == "extra_buffer" and not (launch.disable_radix_cache or launch.disable_overlap_schedule):
        yield "--mamba-radix-cache-strategy extra_buffer_lazy", replace(launch, mamba_radix_cache_strategy="extra_buffer_lazy")
    if limit is Limit.KV_TOKENS and launch.kv_cache_dtype in ("auto", "bfloat16", "bf16"):
        yield "--kv-cache-dtype fp8_e4m3", replace(launch, kv_cache_dtype="fp8_e4m3")
    speculation = launch.speculation
    if hybrid and speculation is not None and speculation.num_steps > 1 and speculation.eagle_topk == 1:
        fewer = replace(speculation, num_steps=speculation.num_steps - 1, num_draft_tokens=speculation.num_draft_tokens - 1)
        text = f"{fewer.num_draft_tokens} draft tokens instead of {speculation.num_draft_tokens} (numSteps {fewer.num_steps})"
        yield text, replace(launch, speculation=fewer)


def remedy(
    *, effective_slots: int, requested_slots: int, limit: Limit, launch: Launch | None = None, hybrid: bool | None = None
) -> str | None:
    """The first remedy for a replica that is full, in a sentence for status; None where only a flip would give more slots.

    `limit` comes from an estimate, or from `limit_of` where only the engine's report is known; `launch` from
    `launch_from_flags`, where its arguments are known; `hybrid`: the model keeps recurrent states, None: not known, and then none of
    its arguments is advised.
    """
    if limit is Limit.MAX_RUNNING_REQUESTS:
        return f"raise {RAISE} above {requested_slots}, as far as memory allows"
    if limit is Limit.MEMORY and hybrid is False:
        limit = Limit.KV_TOKENS  # nothing else takes memory by the request
    short = f"{limit.words} for {effective_slots} of the {requested_slots} requests asked for"
    if limit is Limit.MEMORY and hybrid is None:
        return f"{short}; the engine's start log says whether KV tokens or recurrent states are short"
    known = launch if launch is not None else Launch()
    first = next((step for step in steps(known, limit, hybrid=bool(hybrid)) if step.launch is not None), None)
    return f"{short}; first remedy: {first.text}" if first is not None else None
