"""Which batches a run has: levels of concurrency, arrival rates, contexts, sampling and repeats, for each engine."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtpilot.evidence.records import BatchRecord, Loop, Sampling

from .answers import Endpoint
from .prompts import Length

DEFAULT_LEVELS = (1, 2, 4, 8, 16, 32, 64, 128)
# A calibration without a level at 64 or at the slots extrapolates where modes part: 25-31 % off at 128 (docs/profiles.md).
_HIGH_LEVEL = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is measured: an engine, or a way to engines. `mode` is mtp, batch, or mixed behind a gateway. slots None: not known."""

    mode: str
    route: str
    url: str
    slots: int | None = None

    @property
    def name(self) -> str:
        return self.mode if self.route == "direct" else f"{self.mode} ({self.route})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels of concurrency. at_cap: one more at the engine's slots. above_cap: those beyond the slots as well, as the user asked."""

    concurrency: tuple[int, ...] = DEFAULT_LEVELS
    at_cap: bool = True
    above_cap: bool = False

    def of(self, slots: int | None) -> tuple[int, ...]:
        """Rising, each once."""
        if slots is None:
            return tuple(sorted(set(self.concurrency)))
        kept = {level for level in self.concurrency if self.above_cap or level <= slots}
        return tuple(sorted(kept | ({slots} if self.at_cap else set())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A run. rates: arrivals per second of open loops, each for duration_seconds; rounds: requests of each client of a closed loop.

    whole_length: answers go on to output_tokens whether or not the text has ended. lengths: of a trace, in turn; they replace contexts
    and output_tokens.
    """

    levels: Levels = Levels()
    rates: tuple[float, ...] = ()
    duration_seconds: float = 60.0
    endpoints: tuple[Endpoint, ...] = (Endpoint.CHAT,)
    samplings: tuple[Sampling, ...] = (Sampling.GREEDY, Sampling.SAMPLED)
    contexts: tuple[int, ...] = (1000,)
    output_tokens: int = 256
    repeats: int = 3
    rounds: int = 1
    whole_length: bool = True
    seed: int = 0
    lengths: tuple[Length, ...] = ()

    def __post_init__(self) -> None:
        levels = self.levels.concurrency
        if not levels and not self.levels.at_cap and not self.rates:
            raise ValueError("nothing to measure: give levels of concurrency or rates")
        if any(level < 1 for level in levels) or min((self.output_tokens, self.repeats, self.rounds, *self.contexts)) < 1:
            raise ValueError("levels, contexts, tokens, repeats and rounds are at least 1")
        if any(not rate > 0 for rate in self.rates) or not self.duration_seconds > 0:
            raise ValueError("rates and their duration are above 0")

    @property
    def buckets(self) -> tuple[int, ...]:
        """Context lengths of the records: those asked for, or the trace's mean."""
        if self.lengths:
            return (max(1, round(sum(length.input_tokens for length in self.lengths) / len(self.lengths))),)
        return self.contexts


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch to run. `concurrency` is 0 in an open loop, `rate_per_second` None in a closed one."""

    target: Target
    endpoint: Endpoint
    sampling: Sampling
    context_bucket: int
    loop: Loop
    concurrency: int
    repeat: int
    rate_per_second: float | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """What it shares with the other modes' batches: the same shape sends the same prompts."""
        return (
            self.target.route, self.endpoint.value, self.sampling.value, self.context_bucket, self.loop.value, self.concurrency,
            self.rate_per_second, self.repeat,
        )  # fmt: skip

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it one of its run; see `key_of`."""
        return (self.target.mode, *self.shape)

    @property
    def load(self) -> str:
        """Like `16 at once` or `4/s`."""
        return f"{self.concurrency} at once" if self.loop is Loop.CLOSED else f"{self.rate_per_second:g}/s"


def key_of(record: BatchRecord) -> tuple[Any, ...]:
    """The key of the batch that a record is of."""
    return (
        record.mode, record.route, record.endpoint, record.sampling.value, record.context_bucket, record.loop.value, record.concurrency,
        record.rate_per_second, record.repeat,
    )  # fmt: skip


def batches(settings: Settings, targets: Sequence[Target]) -> list[Batch]:
    """All batches in their order: every level of every engine once, then again for the next repeat.

    So a run that is stopped has something of everything, and what drifts with time meets all levels alike. Engines take turns: only one
    is loaded at a time.
    """
    return [
        Batch(
            target=target,
            endpoint=endpoint,
            sampling=sampling,
            context_bucket=context,
            loop=Loop.CLOSED if rate is None else Loop.OPEN,
            concurrency=level,
            repeat=repeat,
            rate_per_second=rate,
        )
        for context in settings.buckets
        for repeat in range(settings.repeats)
        for endpoint in settings.endpoints
        for sampling in settings.samplings
        for level, rate, target in _loads(settings, targets)
    ]


def _loads(settings: Settings, targets: Sequence[Target]) -> list[tuple[int, float | None, Target]]:
    closed = [(level, None, index) for index, target in enumerate(targets) for level in settings.levels.of(target.slots)]
    opened = [(0, rate, index) for rate in settings.rates for index in range(len(targets))]
    return [(level, rate, targets[index]) for level, rate, index in (*sorted(closed, key=lambda one: (one[0], one[2])), *opened)]


def arrivals(settings: Settings, batch: Batch) -> tuple[float, ...]:
    """Seconds after a batch's start at which each client or request begins: all at once, or Poisson.

    The same shape arrives in the same way at every engine. An open loop has at least one request.
    """
    if batch.rate_per_second is None:
        return (0.0,) * batch.concurrency
    draw = random.Random(f"{settings.seed}/{batch.shape}/arrivals")
    found: list[float] = []
    at = draw.expovariate(batch.rate_per_second)
    while at < settings.duration_seconds:
        found.append(at)
        at += draw.expovariate(batch.rate_per_second)
    return tuple(found) or (0.0,)


def length(settings: Settings, batch: Batch, number: int) -> Length:
    """Planned tokens of a batch's request."""
    if settings.lengths:
        return settings.lengths[(number + batch.repeat * max(1, batch.concurrency)) % len(settings.lengths)]
    return Length(input_tokens=batch.context_bucket, output_tokens=settings.output_tokens)


def requests_of(settings: Settings, batch: Batch) -> int:
    """How many requests a batch sends."""
    count = len(arrivals(settings, batch))
    return count * settings.rounds if batch.loop is Loop.CLOSED else count


def level_warnings(settings: Settings, targets: Iterable[Target]) -> list[str]:
    """What the levels leave out or measure besides the engine, a sentence each."""
    found = []
    for target in targets:
        levels = settings.levels.of(target.slots)
        if not levels:
            continue
        beyond = [level for level in levels if target.slots is not None and level > target.slots]
        if beyond:
            found.append(
                f"{target.name}: {', '.join(map(str, beyond))} at once is more than its {target.slots} slots: that measures the queue, not "
                "the engine. Raise --max-running-requests, or leave these levels out"
            )
        highest = levels[-1]
        if highest < _HIGH_LEVEL and (target.slots is None or highest < target.slots):
            cap = f"its {target.slots} slots" if target.slots is not None else "its slots, which it does not tell"
            found.append(
                f"{target.name}: the highest level is {highest}, below {_HIGH_LEVEL} and below {cap}: what lies above is extrapolated. Add "
                "`cap` to --concurrency"
            )
    return found


def plan_document(settings: Settings, prompts: str, prompts_sha256: str) -> Mapping[str, Any]:
    """The run's parameters for the evidence: equal for two runs that may be compared."""
    return {
        "levels": list(settings.levels.concurrency),
        "level_at_cap": settings.levels.at_cap,
        "rates_per_second": list(settings.rates),
        "duration_seconds": settings.duration_seconds if settings.rates else None,
        "endpoints": [endpoint.value for endpoint in settings.endpoints],
        "samplings": [sampling.value for sampling in settings.samplings],
        "contexts": list(settings.buckets),
        "output_tokens": None if settings.lengths else settings.output_tokens,
        "repeats": settings.repeats,
        "requests_per_client": settings.rounds,
        "whole_length": settings.whole_length,
        "seed": settings.seed,
        "prompts": prompts,
        "prompts_sha256": prompts_sha256,
    }
