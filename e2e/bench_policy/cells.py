"""Which fleets and loads the bench replays: a matrix that is fixed before anything is measured.

* lab: 36 open loads on the three slot-bound pairs, as the policy laboratory had them.
* wide: every trace × every measured pair with four levels in both modes, and the slot-bound ones × fleet × flip × load.
* closed: 18 schedules on the slot-bound pairs, as the laboratory had them.

One day of a ServeGen trace is played. The laboratory plays the first; wide plays the second, where a trace has one, and the first
one before it, uncounted: a fleet that has run for a day is judged, not its first hour. A cell belongs to one
of two halves by a digest of its name: constants of the rule may be chosen on one half only.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.curves.table import pairs_of
from mtpilot.policy.fluid import FluidFleet
from mtpilot.simulate.loads import Load, scaled
from mtpilot.simulate.schedules import SCHEDULES
from mtpilot.simulate.traces import MINUTES_PER_DAY, Trace, read_trace

DATA = Path(__file__).resolve().parents[1] / "data"
LAB, WIDE, CLOSED = PARTS = ("lab", "wide", "closed")
TUNED, HELD_OUT = HALVES = ("tuned", "held out")

TRACES = {
    "m-small": "servegen_m-small_rate_10min",
    "m-mid": "servegen_m-mid_rate_10min",
    "m-large": "servegen_m-large_rate_10min",
    "deepseek-r1": "servegen_deepseek-r1_rate_10min",
    "azure-code": "azure2023_code_full",
    "azure-conv": "azure2023_conv_first6000",
    "mooncake": "mooncake_conversation_lengths_only",
}
DAYS = {LAB: 0, WIDE: 1}
SEEDS = {LAB: 5, WIDE: 11}
SEED_BEFORE = 12
BEFORE_MINUTES = MINUTES_PER_DAY  # as long as what the rule remembers


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Cells that are solved together: several pairs under the same load, scaled to each.

    load: name of a trace, or of a closed schedule. share: of the mtp capacity at the load's 95th percentile; 0 for a schedule.
    """

    part: str
    load: str
    replicas: int
    flip_minutes: int
    share: float
    pairs: tuple[str, ...]

    def key(self, pair: str) -> str:
        """The cell's name, as the laboratory writes it where it has the cell."""
        flip = f"|{self.flip_minutes} min" if self.part == WIDE else ""
        share = f"|{self.share}" if self.share else ""
        return f"{pair}|{self.replicas}|{self.load}{flip}{share}"


def half_of(key: str) -> str:
    """The half that a cell belongs to, for ever."""
    return TUNED if hashlib.sha256(key.encode()).digest()[0] % 2 == 0 else HELD_OUT


@cache
def slot_bound_pairs() -> dict[str, CurvePair]:
    """The laboratory's pairs: power laws through what two reports measured at one request and in saturation; one in two readings."""
    mtp24, batch68 = (1, 2, 4, 8, 16, 24), (1, 2, 4, 8, 16, 24, 32, 48, 68)
    mtp4, batch16 = _curve((1, 2, 4), (70, 126, 234)), (1, 2, 4, 8, 12, 16)
    return {
        "qwen3.5-122b": CurvePair(
            mtp=_curve(mtp24, [121.5 * c**0.83 for c in mtp24]), batch=_curve(batch68, [108 * c**0.771 for c in batch68])
        ),
        "qwen3.6-27b-320": CurvePair(mtp=mtp4, batch=_curve(batch16, [26.7 * c**0.896 for c in batch16])),
        "qwen3.6-27b-427": CurvePair(mtp=mtp4, batch=_curve(batch16, [26.7 * c for c in batch16])),
    }


def _curve(levels: Sequence[float], rates: Sequence[float]) -> ThroughputCurve:
    return ThroughputCurve(concurrency=tuple(map(float, levels)), tokens_per_second=tuple(map(float, rates)))


@cache
def all_pairs() -> dict[str, CurvePair]:
    """The slot-bound pairs, then those of the table of public figures."""
    with (DATA / "mtp_curves.csv").open(newline="") as file:
        return {**slot_bound_pairs(), **pairs_of(csv.DictReader(file))}


@cache
def _whole(name: str) -> Trace:
    return read_trace(DATA / "traces" / f"{TRACES[name]}.csv")


def _is_long(name: str) -> bool:
    return _whole(name).minutes > MINUTES_PER_DAY


@cache
def trace_of(name: str, day: int) -> Trace:
    """A day of a trace; the whole of a trace that is not longer."""
    return _whole(name).day(day if _is_long(name) else 0)


def load_of(task: Task, pair: str) -> Load:
    """The task's load on a fleet of this pair."""
    if task.part == CLOSED:
        return next(load for load in (make(task.replicas) for make in SCHEDULES) if load.name == task.load)
    return scaled(trace_of(task.load, DAYS[task.part]), peak_tokens_per_second=_peak(task, pair), seed=SEEDS[task.part])


def before_of(task: Task, pair: str) -> Load | None:
    """What the fleet served before the task's load began; None: it begins cold, as the laboratory's do.

    The day before, or, of a trace that is not longer than a day, the same over and over for BEFORE_MINUTES at least.
    """
    if task.part != WIDE:
        return None
    if not _is_long(task.load):
        load = load_of(task, pair)
        return replace(load, values=np.tile(load.values, -(-BEFORE_MINUTES // load.minutes)))
    day = DAYS[WIDE]
    return scaled(trace_of(task.load, day - 1), peak_tokens_per_second=_peak(task, pair), seed=SEED_BEFORE, as_in=trace_of(task.load, day))


def _peak(task: Task, pair: str) -> float:
    """tok/s that the load's 95th percentile is scaled to."""
    return task.share * FluidFleet(all_pairs()[pair], task.replicas, by_latency=False).of(task.replicas, 0).capacity


def tasks(parts: Iterable[str], sample: int | None = None) -> list[Task]:
    """The tasks of these parts. sample: of the wide matrix only so many cells, those whose digests come first."""
    found = [task for part in parts for task in _OF_PART[part]()]
    if sample is None:
        return found
    wide = [(task, pair) for task in found if task.part == WIDE for pair in task.pairs]
    kept = {task.key(pair) for task, pair in sorted(wide, key=lambda cell: _digest(cell[0].key(cell[1])))[:sample]}
    return [task for task in (_only(task, kept) for task in found) if task.pairs]


def _digest(key: str) -> bytes:
    return hashlib.sha256(f"sample {key}".encode()).digest()


def _only(task: Task, kept: set[str]) -> Task:
    if task.part != WIDE:
        return task
    pairs = tuple(pair for pair in task.pairs if task.key(pair) in kept)
    return Task(part=task.part, load=task.load, replicas=task.replicas, flip_minutes=task.flip_minutes, share=task.share, pairs=pairs)


def _lab() -> Iterator[Task]:
    for replicas, load, share in product((1, 4), ("m-large", "m-small", "deepseek-r1"), (0.9, 1.1)):
        yield Task(part=LAB, load=load, replicas=replicas, flip_minutes=4, share=share, pairs=tuple(slot_bound_pairs()))


def _wide() -> Iterator[Task]:
    for replicas, flip, load, share in product((8, 4, 1), (10, 4, 1), TRACES, (0.6, 0.9, 1.1)):
        yield Task(part=WIDE, load=load, replicas=replicas, flip_minutes=flip, share=share, pairs=tuple(all_pairs()))


def _closed() -> Iterator[Task]:
    for replicas, make in product((1, 4), SCHEDULES):
        yield Task(part=CLOSED, load=make(replicas).name, replicas=replicas, flip_minutes=4, share=0.0, pairs=tuple(slot_bound_pairs()))


_OF_PART = {LAB: _lab, WIDE: _wide, CLOSED: _closed}
