"""What load would change the answer: the same weighing along a rising load, and the place where a step begins to pay.

The load is a steady one, without bursts, with an empty queue: demand where arrivals go on, clients where they wait for their answers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mtpilot.api.inference_service import Mode

from .forecast import Load
from .weighing import Circumstances, weigh

POINTS, HALVINGS = 8, 4
BEYOND = 1.5  # of the largest capacity of any mix


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimit:
    """A step to `to` pays on one side of `value`, at every load if that is above 0. closed: requests in the system, else tok/s."""

    to: Mode
    value: float
    above: bool
    closed: bool


def load_limits(c: Circumstances, present: Load) -> tuple[LoadLimit, ...]:
    """The limit that is nearest to the present load, for each mode that a step may go to; none where no load makes one pay."""
    closed = present.closed_weight > 0.5
    mixes = [c.fluid.mix(k) for k in range(c.fluid.replicas + 1)]
    most = BEYOND * max((mix.slots if closed else mix.capacity) for mix in mixes)
    at = present.in_system if closed else present.demand

    def answer(value: float) -> Mode | None:
        return weigh(c, _steady(c, present, value, closed)).to

    # Denser below, where small loads differ by more; the present one is among them.
    grid = sorted({most * (i / POINTS) ** 1.5 for i in range(1, POINTS + 1)} | {min(at, most)} - {0.0})
    answers = [answer(value) for value in grid]
    found = (_nearest(to, grid, answers, at, answer) for to in (Mode.BATCH, Mode.MTP))
    return tuple(LoadLimit(to=limit[0], value=limit[1], above=limit[2], closed=closed) for limit in found if limit is not None)


def _steady(c: Circumstances, present: Load, value: float, closed: bool) -> Load:
    here = c.fluid.mix(c.here)
    if closed:
        return replace(present, demand=here.rate(value), in_system=value, queued=max(0.0, value - here.slots), lately=())
    return replace(present, demand=value, in_system=here.in_flight(value), queued=0.0, lately=())


def _nearest(
    to: Mode, grid: list[float], answers: list[Mode | None], at: float, answer: Callable[[float], Mode | None]
) -> tuple[Mode, float, bool] | None:
    """(to, load, whether the step pays above it) of the change of answer that is nearest to `at`; (to, 0, True): it always pays."""
    if all(found is to for found in answers):
        return to, 0.0, True
    changes = [i for i in range(1, len(grid)) if (answers[i] is to) != (answers[i - 1] is to)]
    if not changes:
        return None
    i = min(changes, key=lambda i: abs((grid[i] + grid[i - 1]) / 2 - at))
    low, high, above = grid[i - 1], grid[i], answers[i] is to
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if (answer(middle) is to) == above:
            high = middle
        else:
            low = middle
    return to, (low + high) / 2, above
