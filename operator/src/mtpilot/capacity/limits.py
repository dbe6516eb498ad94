"""What holds the number of running requests down, and how SGLang finds it."""

from dataclasses import dataclass
from enum import StrEnum

from .launch import Launch
from .state_slots import StatePool

_LEAST_ESTIMATE, _MOST_ESTIMATE = 2048, 4096
_ESTIMATE_FACTOR = 512


class Limit(StrEnum):
    """What binds. MEMORY: an engine says that it holds fewer than asked for, but not whether states or KV tokens are short."""

    MAX_RUNNING_REQUESTS = "MaxRunningRequests"
    STATE_SLOTS = "StateSlots"
    KV_TOKENS = "KvTokens"
    MEMORY = "Memory"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Limit.MAX_RUNNING_REQUESTS: "--max-running-requests",
    Limit.STATE_SLOTS: "state slots",
    Limit.KV_TOKENS: "KV tokens",
    Limit.MEMORY: "memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Requests that can run at once. `engine`: as SGLang reports it; `usable`: of these, with requests of the workload's length."""

    engine: int
    usable: int
    limit: Limit


def resolve_slots(launch: Launch, *, kv_tokens: int, context_length: int, request_tokens: int, states: StatePool | None) -> Slots:
    """The engine's limit, and what is left of it when every request takes `request_tokens` of KV cache.

    The engine's: min(--max-running-requests, tokens // 2), without that flag min(clamp(int(tokens / context × 512), 2048, 4096),
    tokens // 2); for hybrid models at most state slots // slots per request. SGLang itself does not look at the length of
    requests: it queues or retracts them when the cache is full, which is the second number.

    Source: `mem_cache/kv_cache_configurator.py: resolve_max_num_reqs`.
    """
    estimate = max(min(int(kv_tokens / context_length * _ESTIMATE_FACTOR), _MOST_ESTIMATE), _LEAST_ESTIMATE)
    asked = launch.requested_slots if launch.requested_slots is not None else estimate
    found = [(asked, Limit.MAX_RUNNING_REQUESTS), (kv_tokens // 2, Limit.KV_TOKENS)]
    if states is not None:
        found.append((states.requests, Limit.STATE_SLOTS))
    engine = min(found, key=lambda pair: pair[0])
    usable = min(engine, (kv_tokens // request_tokens, Limit.KV_TOKENS), key=lambda pair: pair[0])
    return Slots(engine=engine[0], usable=usable[0], limit=usable[1])


def limit_of(effective_slots: int, requested_slots: int) -> Limit:
    """What binds an engine of which only its own report is known."""
    return Limit.MAX_RUNNING_REQUESTS if effective_slots >= requested_slots else Limit.MEMORY
