"""The offline optimum: what a fleet costs when the whole future is known. No rule can do better, so every rule is measured by it.

A dynamic program over mix and queue, backwards through the minutes: stay, or send one replica over and be without it for the
minutes of a flip. It runs on a grid of queue lengths, so its own values are approximate; the schedule that it finds is
then followed forward on the exact model, and only that cost is reported. Many fleets are solved at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtpilot.api.inference_service import Mode
from mtpilot.curves.curve import CurvePair

from .driver import LEFTOVER_MINUTES, REPORT_EVERY_MINUTES, Moment, Site, Steering
from .fleet import LEVELS, Tables, tables
from .loads import Load
from .traces import SECONDS_PER_MINUTE, Floats

QUEUE_LEVELS = 32
_QUEUE_RATIO = 3000.0  # of the longest to the finest queue that the grid tells apart

Ints = NDArray[np.intp]
Rows = NDArray[np.int32]
Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best schedule found for one fleet.

    cost: request-minutes. batch: replicas in batch mode at the start. moves: (minute from which the replica is away, mode it goes to).
    """

    cost: float
    batch: int
    moves: tuple[tuple[int, Mode], ...]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A schedule as a policy."""

    best: Best
    name: str = "optimum"

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> Steering:
        return _Follows(self.best.batch, dict(self.best.moves))


@dataclass(slots=True)
class _Follows:
    batch: int
    moves: dict[int, Mode]
    why: str = "foreseen"

    def move(self, moment: Moment) -> Mode | None:
        return self.moves.get(moment.minute + 1)


def solve(
    pairs: Sequence[CurvePair],
    loads: Sequence[Load],
    *,
    replicas: int,
    flip_minutes: int,
    progress: Callable[[int], None] | None = None,
) -> list[Best]:
    """The best schedule of each pair under its load; all loads of one length and one mean output length.

    progress: called now and then with the minutes done since the last call.
    """
    return _Program(pairs, loads, replicas, flip_minutes).solve(progress)


def fixed(pairs: Sequence[CurvePair], loads: Sequence[Load], mixes: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """(request-minutes, longest queue), both (pairs, mixes), where each (batch, mtp) mix stays as it is."""
    arrivals = _arrivals(loads)
    table = tables(pairs, mixes, loads[0].output_tokens)
    fleet, mix = np.indices((len(pairs), len(mixes)))
    queue, total, longest = (np.zeros(fleet.shape) for _ in range(3))
    for minute in arrivals.T:
        cost, queue = table.minute(fleet, mix, np.broadcast_to(minute[:, None], fleet.shape), queue)
        total += cost
        longest = np.maximum(longest, queue)
    return total + queue * LEFTOVER_MINUTES, longest


def _arrivals(loads: Sequence[Load]) -> Floats:
    return np.array([load.values for load in loads]) * SECONDS_PER_MINUTE / loads[0].output_tokens


class _Grid:
    """Queue lengths of one grid per fleet: dense near an empty queue, parabolas between and beyond.

    The time to clear a queue grows with its square, so straight lines would overrate every queue a little in every minute,
    and staying, which is read off every minute, more than leaving, which is read off once in a flip.
    """

    def __init__(self, longest: Floats) -> None:
        step = np.log1p(_QUEUE_RATIO) / (QUEUE_LEVELS - 1)
        growth = np.exp(step * np.arange(QUEUE_LEVELS))
        scale = (longest / _QUEUE_RATIO)[:, None, None]
        self.queue: Values = (scale * (growth - 1)).astype(np.float32)
        self._inverse_scale = (1 / scale).astype(np.float32)
        self._inverse_growth = (1 / growth / np.expm1(step)).astype(np.float32)
        self._inverse_width = np.float32(1 / np.expm1(step))
        self._inverse_step = np.float32(1 / step)
        self._second, self._third = np.float32(1 / np.exp(step)), np.float32(1 / (np.exp(step) + 1))

    def read(self, value: Values, rows: Rows, queue: Values) -> Values:
        """`value` (…, levels) at other queues; `rows` (fleets, mixes, 1): which rows of it they are read from."""
        relative = queue * self._inverse_scale
        relative += np.float32(1)
        left = (np.log(relative) * self._inverse_step).astype(np.int32)
        np.minimum(left, QUEUE_LEVELS - 3, out=left)
        share = relative * self._inverse_growth.take(left)
        share -= self._inverse_width
        left += rows * np.int32(QUEUE_LEVELS)
        flat = value.reshape(-1)
        low, mid, high = flat.take(left), flat.take(left + 1), flat.take(left + 2)
        rise = mid - low
        bend = ((high - mid) * self._second - rise) * self._third
        return np.asarray(low + share * (rise + (share - np.float32(1)) * bend))


class _Flow:
    """A minute of many fleets, mixes and queues at once; requests in flight come from the even tables."""

    def __init__(self, table: Tables, first: int, last: int) -> None:
        cap = table.cap[:, first:last]
        self._cap = cap[..., None].astype(np.float32)
        self._to_level = np.divide(LEVELS, cap, out=np.zeros_like(cap), where=cap > 0)[..., None].astype(np.float32)
        even = table.even[:, first:last].astype(np.float32)
        self._even = np.ascontiguousarray(even).reshape(-1)
        self._rows = (np.arange(cap.size, dtype=np.int32) * (LEVELS + 1)).reshape(*cap.shape, 1)

    def minute(self, arriving: Values, queue: Values) -> tuple[Values, Values]:
        """(requests in system, queue after it); arriving (fleets, 1, 1), queue (fleets, mixes, levels)."""
        offered = queue + arriving
        level = np.minimum(offered, self._cap) * self._to_level
        left = np.minimum(level.astype(np.int32), LEVELS - 1)
        level -= left
        left += self._rows
        low = self._even.take(left)
        running = low + level * (self._even.take(left + 1) - low)
        after = np.maximum(offered - self._cap, np.float32(0))
        return running + (queue + after) * np.float32(0.5), after


class _Program:
    def __init__(self, pairs: Sequence[CurvePair], loads: Sequence[Load], replicas: int, flip_minutes: int) -> None:
        self.replicas, self.flip = replicas, flip_minutes
        self.arrivals = _arrivals(loads)
        self.fleets, self.minutes = self.arrivals.shape
        present = [(batch, replicas - batch) for batch in range(replicas + 1)]
        absent = [(batch, replicas - 1 - batch) for batch in range(replicas)]
        self.table = tables(pairs, present + absent, loads[0].output_tokens)
        _, longest = fixed(pairs, loads, present)
        self.grid = _Grid(longest.min(axis=1) * 1.5 + 2 * flip_minutes * self.arrivals.max(axis=1) + 1.0)
        self.gains: Values = np.empty((self.minutes, 2, self.fleets, replicas, QUEUE_LEVELS), dtype=np.float32)

    def solve(self, progress: Callable[[int], None] | None) -> list[Best]:
        self._backward(progress)
        return self._forward()

    def _backward(self, progress: Callable[[int], None] | None = None) -> None:
        """Fill `gains`: what going up from each mix, and down to it, costs more than staying."""
        count = self.replicas + 1
        ring = np.empty((self.flip + 1, self.fleets, count, QUEUE_LEVELS), dtype=np.float32)
        ring[:] = self.grid.queue * np.float32(LEFTOVER_MINUTES)
        rows = np.arange(self.fleets * count, dtype=np.int32).reshape(self.fleets, count, 1)
        here, gone = _Flow(self.table, 0, count), _Flow(self.table, count, 2 * count - 1)
        arrivals = self.arrivals.T.astype(np.float32)[:, :, None, None]
        for minute in range(self.minutes - 1, -1, -1):
            cost, queue = here.minute(arrivals[minute], self.grid.queue)
            stay = cost + self.grid.read(ring[(minute + 1) % (self.flip + 1)], rows, queue)
            total, queue = gone.minute(arrivals[minute], self.grid.queue)
            for ahead in range(minute + 1, min(minute + self.flip, self.minutes)):
                cost, queue = gone.minute(arrivals[ahead], queue)
                total += cost
            later = ring[(minute + self.flip) % (self.flip + 1)]
            up, down = total + self.grid.read(later, rows[:, 1:], queue), total + self.grid.read(later, rows[:, :-1], queue)
            self.gains[minute, 0] = up - stay[:, :-1]
            self.gains[minute, 1] = down - stay[:, 1:]
            np.minimum(stay[:, :-1], up, out=ring[minute % (self.flip + 1)][:, :-1])
            ring[minute % (self.flip + 1)][:, -1] = stay[:, -1]
            np.minimum(ring[minute % (self.flip + 1)][:, 1:], down, out=ring[minute % (self.flip + 1)][:, 1:])
            if progress is not None and minute % REPORT_EVERY_MINUTES == 0:
                progress(min(REPORT_EVERY_MINUTES, self.minutes - minute))

    def _forward(self) -> list[Best]:
        """Follow the gains on the exact model, from every mix; the cheapest run counts.

        Nobody leaves in the first minute: to begin in the other mode is better.
        """
        count = self.replicas + 1
        fleet, batch = np.indices((self.fleets, count))
        rows = fleet * self.replicas
        mix, left, step = batch.copy(), np.zeros_like(batch), np.zeros_like(batch)
        queue, total = np.zeros(batch.shape), np.zeros(batch.shape)
        starts = np.zeros((self.minutes, *batch.shape), dtype=np.int8)
        for minute in range(self.minutes):
            free = (left == 0) & (minute > 0)
            up = np.where(free & (mix < self.replicas), self._gain(minute, 0, rows + mix, queue), np.inf)
            down = np.where(free & (mix > 0), self._gain(minute, 1, rows + mix - 1, queue), np.inf)
            start = np.where(np.minimum(up, down) < 0, np.where(up <= down, 1, -1), 0)
            starts[minute] = start
            step, left = np.where(start, start, step), np.where(start, self.flip, left)
            arriving = np.broadcast_to(self.arrivals[:, minute, None], batch.shape)
            cost, queue = self.table.minute(fleet, np.where(left > 0, count + mix - (step < 0), mix), arriving, queue)
            total += cost
            mix = np.where(left == 1, mix + step, mix)
            left = np.maximum(left - 1, 0)
        total += queue * LEFTOVER_MINUTES
        return [self._best(float(total[i, k]), int(k), starts[:, i, k]) for i, k in enumerate(total.argmin(axis=1))]

    def _gain(self, minute: int, way: int, rows: Ints, queue: Floats) -> Values:
        """The gain at the present queues; rows beyond the table's ends stand for ways that are closed, whatever is read there."""
        inside = np.clip(rows, 0, self.fleets * self.replicas - 1).astype(np.int32)
        return self.grid.read(self.gains[minute, way], inside[..., None], queue.astype(np.float32)[..., None])[..., 0]

    @staticmethod
    def _best(cost: float, batch: int, starts: NDArray[np.int8]) -> Best:
        moves = tuple((int(minute), Mode.BATCH if starts[minute] > 0 else Mode.MTP) for minute in np.flatnonzero(starts))
        return Best(cost=cost, batch=batch, moves=moves)
