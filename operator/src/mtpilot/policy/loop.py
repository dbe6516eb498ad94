"""Open or closed: do arrivals go on when answers take longer, or do clients wait for their answers?

Only a queue tells: while requests wait, a closed loop keeps the number in the system as it is, and an open one lets it grow,
shrink or wander. What is served looks alike in both.
"""

from dataclasses import dataclass

from .smoothing import weight

QUEUE_THAT_TELLS = 0.5  # requests
COMPARE_EVERY_SECONDS = 60.0
SAME_SHARE, SAME_REQUESTS = 0.01, 0.5  # a number in the system that moves by less between two looks has stayed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMemory:
    """closed_weight: 0…1. compared: requests in the system at the last comparison. since_seconds: time since then."""

    closed_weight: float = 0.5
    compared: float | None = None
    since_seconds: float = 0.0


UNDECIDED = LoopMemory()


def compare(
    memory: LoopMemory, in_system: float, queued: float, *, elapsed_seconds: float, time_constant_seconds: float, pace: float = 1.0
) -> LoopMemory:
    """Take one sample: once a minute (times `pace`) the number in the system is held against the one before."""
    since = memory.since_seconds + elapsed_seconds
    if memory.compared is None:
        return LoopMemory(closed_weight=memory.closed_weight, compared=in_system)
    if since < 0.95 * COMPARE_EVERY_SECONDS * pace:
        return LoopMemory(closed_weight=memory.closed_weight, compared=memory.compared, since_seconds=since)
    closed = memory.closed_weight
    if queued > QUEUE_THAT_TELLS:
        stayed = abs(in_system - memory.compared) <= SAME_SHARE * max(in_system, 1.0) + SAME_REQUESTS
        share = weight(min(since, 2 * COMPARE_EVERY_SECONDS * pace), time_constant_seconds)
        closed += share * ((1.0 if stayed else 0.0) - closed)
    return LoopMemory(closed_weight=closed, compared=in_system)


def sharpened(closed_weight: float) -> float:
    """The weight that counts in a price: with the odds to the third power.

    The open reading of a closed loop is not a little wrong but wildly: a tenth of it would outweigh the closed one.
    """
    closed, opened = closed_weight**3, (1.0 - closed_weight) ** 3
    return closed / (closed + opened)
