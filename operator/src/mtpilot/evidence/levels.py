"""Batches of one level: the repeats of one mode, route, endpoint, sampling, context, kind of load and concurrency."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .records import BatchRecord, Loop, RequestRecord, Sampling

_NO_RATE = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What the repeats of a level have in common. `rate_per_second` is that of an open loop, else None."""

    mode: str
    route: str
    endpoint: str
    sampling: Sampling
    context_bucket: int
    loop: Loop
    rate_per_second: float | None
    concurrency: int

    @property
    def order(self) -> tuple[str | int | float, ...]:
        """By which tables are sorted: what differs least first, then the load, then the mode."""
        rate = _NO_RATE if self.rate_per_second is None else self.rate_per_second
        return (self.route, self.endpoint, self.sampling, self.context_bucket, self.loop, rate, self.concurrency, self.mode)

    def in_mode(self, mode: str) -> "Level":
        """The same level of another mode."""
        return replace(self, mode=mode)


def level_of(record: RequestRecord | BatchRecord) -> Level:
    """The level that a batch is a repeat of, or a request a part of."""
    return Level(
        mode=record.mode,
        route=record.route,
        endpoint=record.endpoint,
        sampling=record.sampling,
        context_bucket=record.context_bucket,
        loop=record.loop,
        rate_per_second=record.rate_per_second,
        concurrency=record.concurrency,
    )


def levels_of(batches: Iterable[BatchRecord]) -> dict[Level, list[BatchRecord]]:
    """Every level in its order, with its repeats as they were measured."""
    found: dict[Level, list[BatchRecord]] = defaultdict(list)
    for batch in batches:
        found[level_of(batch)].append(batch)
    return {level: found[level] for level in sorted(found, key=lambda level: level.order)}


def tokens_per_second(batch: BatchRecord) -> float | None:
    """What the engine serves at this level; None where nothing was answered.

    Tokens over the wall time less the longest TTFT, the figure of the founding reports. Where requests waited for a slot, or came by
    themselves (an open loop), the longest TTFT is somebody's wait: there it is tokens over the wall time.
    """
    waited = batch.queue_measured or batch.loop is Loop.OPEN
    return batch.figures.wall_tokens_per_second if waited else batch.figures.tokens_per_second or batch.figures.wall_tokens_per_second


def known(values: Iterable[float | None]) -> list[float]:
    """Those that are told."""
    return [float(value) for value in values if value is not None]


def rates_of(batches: Sequence[BatchRecord]) -> list[float]:
    """Tokens/s of each repeat that answered anything."""
    return known(tokens_per_second(batch) for batch in batches)
