"""Two runs side by side, level by level, with an interval for each ratio.

The interval is of the repeats: means of repeats drawn with replacement, 5th to 95th percentile of their ratio. It cannot know what changes
from one start of an engine to the next, so a difference counts only where it is also beyond what nobody measures better (3 %).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from mtpilot.curves.of_profile import LEAST_ERROR

from .alike import Kind, engine_differences, name_of, run_differences
from .environment import Engine, Environment
from .levels import Level, known, levels_of, rates_of
from .package import Package
from .records import BatchRecord
from .statistics import mean

DRAWS = 2000
_SEED = 20260
_LOW, _HIGH = 5, 95
# Kept in the level where both runs have values in common; where they have none, the two are what is compared.
_MAY_DIFFER = ("mode", "route", "endpoint")


class Finding(StrEnum):
    """What a ratio says. SAME: no difference that repeats and 3 % would not explain. UNKNOWN: one repeat tells no interval."""

    MORE = "more"
    LESS = "less"
    SAME = "same"
    UNKNOWN = "one repeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The second run over the first. here, there: means of the repeats; low, high: 90 % interval of the ratio, None for a single repeat."""

    here: float
    there: float
    ratio: float
    low: float | None
    high: float | None

    @property
    def finding(self) -> Finding:
        """Beyond the repeats, and beyond what one start of an engine differs from the next."""
        if self.low is None or self.high is None:
            return Finding.UNKNOWN
        if self.low > 1 and self.ratio > 1 + LEAST_ERROR:
            return Finding.MORE
        return Finding.LESS if self.high < 1 and self.ratio < 1 - LEAST_ERROR else Finding.SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One level of both runs. here, there: their levels, which differ in mode, route or endpoint where the runs share none.

    tokens_per_second is of the engine; the other ratios are of its requests, None where one run does not tell them. accept_length: of each
    run, mean of the repeats.
    """

    here: Level
    there: Level
    repeats: tuple[int, int]
    tokens_per_second: Ratio
    per_request_tokens_per_second: Ratio | None
    ttft_p99_seconds: Ratio | None
    accept_length: tuple[float | None, float | None]
    queue_measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """rows: levels that both have. warnings: why the two are unlike things, empty: only their modes differ. notes: limits that differ.

    only_here, only_there: how many levels the other one lacks.
    """

    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    only_here: int
    only_there: int


def compare(here: Package, there: Package) -> Comparison:
    """The second run over the first, at every level that both measured."""
    first, second = (levels_of(_batches(package)) for package in (here, there))
    dropped = _dropped(first, second)
    mine, theirs = ({_without(level, dropped): level for level in found} for found in (first, second))
    both = (_row(mine[key], theirs[key], first[mine[key]], second[theirs[key]]) for key in mine if key in theirs)
    rows = tuple(row for row in both if row is not None)
    warnings, notes = _differences(here.environment, there.environment, dropped)
    doubled = len(first) - len(mine) + len(second) - len(theirs)
    return Comparison(
        rows=rows,
        warnings=(*warnings, *_of_rows(rows, doubled, dropped)),
        notes=notes,
        only_here=sum(key not in theirs for key in mine),
        only_there=sum(key not in mine for key in theirs),
    )


def ratio_of(here: Sequence[float], there: Sequence[float]) -> Ratio | None:
    """The means' ratio with its interval; None where one of both has no value above 0."""
    one, other = mean(here), mean(there)
    if not one or not other or min(*here, *there) <= 0:
        return None
    low = high = None
    if len(here) > 1 and len(there) > 1:
        draws = np.random.default_rng(_SEED)  # fixed: equal packages compare equally
        means = [np.array(values)[draws.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1) for values in (here, there)]
        low, high = (float(value) for value in np.percentile(means[1] / means[0], (_LOW, _HIGH)))
    return Ratio(here=one, there=other, ratio=other / one, low=low, high=high)


def _row(here: Level, there: Level, first: Sequence[BatchRecord], second: Sequence[BatchRecord]) -> Row | None:
    served = ratio_of(rates_of(first), rates_of(second))
    if served is None:
        return None
    return Row(
        here=here,
        there=there,
        repeats=(len(first), len(second)),
        tokens_per_second=served,
        per_request_tokens_per_second=ratio_of(
            *(known(one.figures.per_request_tokens_per_second for one in found) for found in (first, second))
        ),
        ttft_p99_seconds=ratio_of(*(known(one.figures.ttft_p99_seconds for one in found) for found in (first, second))),
        accept_length=(mean(known(one.accept_length for one in first)), mean(known(one.accept_length for one in second))),
        queue_measured=any(one.queue_measured for one in (*first, *second)),
    )


def _of_rows(rows: Sequence[Row], doubled: int, dropped: Sequence[str]) -> Iterator[str]:
    if not rows:
        yield "no level was measured in both: nothing can be set side by side"
    if doubled:
        yield f"{doubled} levels differ only in {' or '.join(dropped)}, which the other run does not share: one of each was taken"
    if queued := sorted({row.here.concurrency for row in rows if row.queue_measured}):
        yield f"requests waited for a slot at {', '.join(map(str, queued))} in flight: there the queue was measured with the engine"


def _dropped(first: Iterable[Level], second: Iterable[Level]) -> tuple[str, ...]:
    """Parts of a level of which the runs have no value in common."""
    return tuple(name for name in _MAY_DIFFER if not {getattr(level, name) for level in first} & {getattr(level, name) for level in second})


def _without(level: Level, dropped: Sequence[str]) -> Level:
    changes: dict[str, Any] = dict.fromkeys(dropped, "")
    return replace(level, **changes)


def _differences(here: Environment, there: Environment, dropped: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Warnings and notes, over the engines that stand against one another."""
    warnings = [f"the runs differ in {difference.words}" for difference in run_differences(here, there)]
    notes: list[str] = []
    for mine, theirs in _pairs(here.engines, there.engines, dropped):
        found = engine_differences(mine, theirs)
        unlike = [difference.words for difference in found if difference.kind is Kind.UNLIKE]
        limits = [difference.words for difference in found if difference.kind is Kind.LIMIT]
        names = f"{name_of(mine)} and {name_of(theirs)}"
        if unlike:
            warnings.append(f"{names} differ in more than drafting: {'; '.join(unlike)}")
        if limits:
            notes.append(f"{names} have other limits: {'; '.join(limits)}")
    for environment in (here, there):
        warnings += [f"run {environment.run_id}: {text}" for text in environment.warnings]
    return tuple(dict.fromkeys(warnings)), tuple(dict.fromkeys(notes))


def _pairs(first: Sequence[Engine], second: Sequence[Engine], dropped: Sequence[str]) -> list[tuple[Engine, Engine]]:
    shared = [name for name in ("mode", "route") if name not in dropped]
    return [(one, other) for one in first for other in second if all(getattr(one, name) == getattr(other, name) for name in shared)]


def _batches(package: Package) -> list[BatchRecord]:
    return [record for record in package.records if isinstance(record, BatchRecord)]
