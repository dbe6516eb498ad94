"""Measured batches as rows, and the curves that they make.

A row is one measured batch: the fields of `Measurement`, as CSV text or as JSON values. Several rows of one mode, context and level are
repeats: their mean is the point, their spread is the noise that the fit reckons with. Rows of the wide table (`table.py`) become the same.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Curve, CurvePoint, ThroughputProfileSpec

from .decimals import decimal_text
from .table import Row, in_flight, is_measurement, longest_series

REQUIRED = ("mode", "concurrency", "output_tokens_per_second")
# Where a table says that there was none: the shortest that the API knows.
NO_CONTEXT = 1

Group = tuple[Mode, int]


class InvalidMeasurement(ValueError):  # noqa: N818 - the words of the message
    """A row that is no measurement, or rows that do not belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured batch. slots None: not told, the highest level stands for it."""

    mode: Mode
    concurrency: int
    context_tokens: int
    output_tokens_per_second: float
    per_request_tokens_per_second: float | None = None
    accept_length: float | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Curves of a set of measurements. repeat_noise: relative standard deviation of one among repeats of a level, 0 without repeats."""

    curves: tuple[Curve, ...]
    repeat_noise: float


def measurements_of(rows: Iterable[Mapping[str, object]], default_context_tokens: int) -> list[Measurement]:
    """Rows in the project's own columns; a row without context has the default.

    Raises:
        InvalidMeasurement: a value is missing or no number; the message names the row, counted from 1, and the column.
    """
    return [_measurement(row, number, default_context_tokens) for number, row in enumerate(rows, 1)]


def measurements_of_table(rows: Iterable[Row], pair_id: str, contexts: Collection[int] = ()) -> list[Measurement]:
    """The rows of one pair of the wide table that are measurements, all its contexts or some.

    A level of which only some requests ran stands as it is, with the number that ran as slots.

    Raises:
        InvalidMeasurement: the pair has no measured row in one of the modes.
    """
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["pair_id"] == pair_id and is_measurement(row):
            context = max(int(row["context_tokens"] or NO_CONTEXT), NO_CONTEXT)
            if not contexts or context in {max(wanted, NO_CONTEXT) for wanted in contexts}:
                groups[context].append(row)
    found = [measurement for context, group in groups.items() for measurement in _of_table(group, context)]
    missing = [mode for mode in Mode if not any(measurement.mode is mode for measurement in found)]
    if missing:
        raise InvalidMeasurement(f"pair {pair_id} has no measured row in mode {missing[0]}" + (" at these contexts" if contexts else ""))
    return found


def measurements_of_profile(spec: ThroughputProfileSpec) -> list[Measurement]:
    """A profile's points as measurements again."""
    return [
        Measurement(
            mode=curve.mode,
            concurrency=point.concurrency,
            context_tokens=curve.context_tokens,
            output_tokens_per_second=float(point.output_tokens_per_second),
            per_request_tokens_per_second=_maybe(point.per_request_tokens_per_second),
            accept_length=_maybe(point.accept_length) or _maybe(curve.accept_length),
            slots=curve.slots,
        )
        for curve in spec.curves
        for point in curve.points
    ]


def curves_of(measurements: Sequence[Measurement]) -> Measured:
    """One curve for each mode and context, levels rising.

    Raises:
        InvalidMeasurement: rows of one curve tell different slots.
    """
    groups: dict[Group, list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        groups[measurement.mode, measurement.context_tokens].append(measurement)
    ordered = sorted(groups.items(), key=lambda item: (item[0][1], item[0][0] is not Mode.MTP))
    return Measured(curves=tuple(_curve(group, found) for group, found in ordered), repeat_noise=_repeat_noise(measurements))


def _measurement(row: Mapping[str, object], number: int, default_context_tokens: int) -> Measurement:
    def value(column: str) -> float | None:
        found = row.get(column)
        if found is None or str(found).strip() == "":
            if column in REQUIRED:
                raise InvalidMeasurement(f"row {number}: {column} is missing")
            return None
        try:
            parsed = float(str(found))
        except ValueError:
            raise InvalidMeasurement(f"row {number}: {column} is no number: {found!r}") from None
        if not 0 < parsed < math.inf:
            raise InvalidMeasurement(f"row {number}: {column} must be above 0 and finite, it is {found}")
        return parsed

    mode = str(row.get("mode", "")).strip()
    if mode not in (Mode.MTP, Mode.BATCH):
        raise InvalidMeasurement(f"row {number}: mode must be mtp or batch, it is {mode!r}")
    whole = {column: _whole(value(column), column, number) for column in ("concurrency", "context_tokens", "slots")}
    return Measurement(
        mode=Mode(mode),
        concurrency=whole["concurrency"] or 1,
        context_tokens=whole["context_tokens"] or default_context_tokens,
        output_tokens_per_second=value("output_tokens_per_second") or 0.0,
        per_request_tokens_per_second=value("per_request_tokens_per_second"),
        accept_length=value("accept_length") if mode == Mode.MTP else None,
        slots=whole["slots"],
    )


def _whole(value: float | None, column: str, number: int) -> int | None:
    if value is not None and value != int(value):
        raise InvalidMeasurement(f"row {number}: {column} must be a whole number, it is {value:g}")
    return None if value is None else int(value)


def _of_table(rows: Sequence[Row], context_tokens: int) -> list[Measurement]:
    batch = [row for row in rows if row["tok_s_base"]]
    mtp = longest_series(rows)
    slots = {Mode.BATCH: _slots(batch, "slots_base", mtp=False), Mode.MTP: _slots(mtp, "slots_mtp", mtp=True)}
    columns = {Mode.BATCH: ("tok_s_base", "per_req_base"), Mode.MTP: ("tok_s_mtp", "per_req_mtp")}
    return [
        Measurement(
            mode=mode,
            concurrency=int(row["C"]),
            context_tokens=context_tokens,
            output_tokens_per_second=float(row[columns[mode][0]]),
            per_request_tokens_per_second=_maybe(row[columns[mode][1]]),
            accept_length=_maybe(row["accept_len"]) if mode is Mode.MTP else None,
            slots=slots[mode],
        )
        for mode, found in ((Mode.MTP, mtp), (Mode.BATCH, batch))
        for row in found
    ]


def _slots(rows: Sequence[Row], column: str, *, mtp: bool) -> int | None:
    """The highest level that ran, or what the table says where that is less: beyond it nothing was measured."""
    told = [int(found.group()) for row in rows if (found := re.match(r"[0-9]+", row[column]))]
    return min([*told, int(max(in_flight(row, mtp=mtp) for row in rows))]) if rows else None


def _curve(group: Group, found: Sequence[Measurement]) -> Curve:
    mode, context_tokens = group
    slots = {measurement.slots for measurement in found if measurement.slots is not None}
    if len(slots) > 1:
        raise InvalidMeasurement(f"slots of {mode} at {context_tokens} tokens of context differ: {', '.join(map(str, sorted(slots)))}")
    levels: dict[int, list[Measurement]] = defaultdict(list)
    for measurement in found:
        levels[measurement.concurrency].append(measurement)
    lengths = [measurement.accept_length for measurement in found if measurement.accept_length is not None]
    return Curve(
        mode=mode,
        context_tokens=context_tokens,
        slots=slots.pop() if slots else max(levels),
        accept_length=_mean_text(lengths),
        points=tuple(_point(level, levels[level], told=len(set(lengths)) > 1) for level in sorted(levels)),
    )


def _point(level: int, found: Sequence[Measurement], *, told: bool) -> CurvePoint:
    return CurvePoint(
        concurrency=level,
        output_tokens_per_second=_mean_text([one.output_tokens_per_second for one in found]) or "0",
        per_request_tokens_per_second=_mean_text([one.per_request_tokens_per_second for one in found]),
        accept_length=_mean_text([one.accept_length for one in found]) if told else None,
    )


def _mean_text(values: Sequence[float | None]) -> str | None:
    known = [value for value in values if value is not None]
    return decimal_text(sum(known) / len(known)) if known else None


def _repeat_noise(measurements: Sequence[Measurement]) -> float:
    """Pooled over the levels that were measured more than once."""
    levels: dict[tuple[Mode, int, int], list[float]] = defaultdict(list)
    for one in measurements:
        levels[one.mode, one.context_tokens, one.concurrency].append(one.output_tokens_per_second)
    squares = freedom = 0.0
    for rates in levels.values():
        mean = sum(rates) / len(rates)
        squares += sum((rate / mean - 1) ** 2 for rate in rates)
        freedom += len(rates) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0


def _maybe(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
