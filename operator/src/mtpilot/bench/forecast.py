"""How long the rest of a run takes, from the batches that it has already had."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mtpilot.evidence.records import Loop

from .planning import Batch

# Tokens per second of one request fall with the level about so: power laws of measured curves have exponents from 0.7 to 0.9.
_SLOWER_BY_LEVEL = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A batch and the seconds that it took, its preparation included."""

    batch: Batch
    seconds: float


def seconds_left(rest: Sequence[Batch], done: Sequence[Done], *, duration_seconds: float) -> float | None:
    """Seconds that `rest` will take; None before the first batch. duration_seconds: of one open-loop batch."""
    if not done:
        return None
    return sum(_seconds(batch, done, duration_seconds) for batch in rest)


def _seconds(batch: Batch, done: Sequence[Done], duration_seconds: float) -> float:
    """As the most alike batch that was run, by target, loop, context, then level; scaled to its level."""
    if batch.loop is Loop.OPEN:
        return duration_seconds
    closed = [one for one in done if one.batch.loop is Loop.CLOSED]
    if not closed:
        return duration_seconds
    like = min(closed, key=lambda one: _distance(batch, one.batch))
    slots = batch.target.slots
    level, other = batch.concurrency, like.batch.concurrency
    waves = max(1.0, level / slots) if slots else 1.0
    return like.seconds * math.pow(level / other, _SLOWER_BY_LEVEL) * waves


def _distance(batch: Batch, other: Batch) -> tuple[bool, bool, float]:
    apart = abs(math.log(batch.concurrency / other.concurrency))
    return (batch.target.mode != other.target.mode, batch.context_bucket != other.context_bucket, apart)


def spelled(seconds: float | None) -> str:
    """Like `2 min 5 s`; `unknown` for None."""
    if seconds is None:
        return "unknown"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
