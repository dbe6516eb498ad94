"""Pairs of curves out of a wide table of measurements: one row for a level of concurrency, one column for each mode.

The table is this project's collection of public MTP figures (`e2e/data/mtp_curves.csv`, columns in the README beside it). Its
rows differ in worth, and only what was measured counts: projections, simulations and mere ratios are left out, and so are rows
whose mtp column is not a replica in mtp mode (a mixed route, drafting switched off).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from mtpilot.curves.curve import CurvePair, ThroughputCurve

FEWEST_LEVELS = 4
UNKNOWN_CONTEXT = "unknown"

_AVERAGE_RUNNING = re.compile(r"queued: .*avg_running=([0-9.]+)")
_NOT_IN_MTP_MODE = ("mixed route", "K=0")

Row = Mapping[str, str]
Rates = dict[float, float]


def pairs_of(rows: Iterable[Row]) -> dict[str, CurvePair]:
    """Every pair and context with at least four levels in both modes, as `pair_id@context_tokens`.

    Points are measured or derived (tok/s of one request times requests); several rows at one level are averaged, and where a
    pair was measured with several draft lengths the one with the most levels is taken. A curve ends at its last level, which
    stands for the slots. Rates are the running maximum, see `monotone`.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if is_measurement(row):
            groups[f"{row['pair_id']}@{row['context_tokens'] or UNKNOWN_CONTEXT}"].append(row)
    found = {key: _pair(group) for key, group in groups.items()}
    return {key: pair for key, pair in found.items() if pair is not None}


def is_measurement(row: Row) -> bool:
    """Whether the row has tok/s at a number of requests in flight that somebody measured, or multiplied out of a measurement."""
    return row["load_axis"] == "concurrency" and (row["kind"] == "measured" or row["kind"].startswith("derived")) and _is_number(row["C"])


def is_mtp(row: Row) -> bool:
    """Whether the row's mtp column is a replica in mtp mode."""
    return bool(row["tok_s_mtp"]) and not any(mark in row["spec_method"] for mark in _NOT_IN_MTP_MODE)


def in_flight(row: Row, *, mtp: bool) -> float:
    """Requests that ran: where the notes say that some waited, the average that ran, else the level of the load."""
    queued = _AVERAGE_RUNNING.search(row["notes"]) if mtp else None
    return min(float(row["C"]), float(queued.group(1))) if queued else float(row["C"])


def longest_series(rows: Iterable[Row]) -> list[Row]:
    """The rows in mtp mode with the drafting that was measured at the most levels: others are not the same curve."""
    series: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if is_mtp(row):
            series[row["spec_method"], row["spec_tokens_K"]].append(row)
    return max(series.values(), key=lambda found: len({row["C"] for row in found}), default=[])


def monotone(rates: Sequence[float]) -> tuple[float, ...]:
    """The running maximum.

    A replica may serve less when it is given more (preemption, a full KV cache), but it need not be given more: its slots can
    be set to the level of the maximum. So where a table falls, the curve stays at what has been reached.
    """
    return tuple(accumulate(rates, max))


def _pair(rows: Sequence[Row]) -> CurvePair | None:
    batch = _mean([(in_flight(row, mtp=False), float(row["tok_s_base"])) for row in rows if row["tok_s_base"]])
    longest = longest_series(rows)
    mtp = _mean([(in_flight(row, mtp=True), float(row["tok_s_mtp"])) for row in longest])
    if min(len(batch), len(mtp)) < FEWEST_LEVELS:
        return None
    lengths = [float(row["accept_len"]) for row in longest if _is_number(row["accept_len"])]
    return CurvePair(mtp=_curve(mtp), batch=_curve(batch), accept_length=sum(lengths) / len(lengths) if lengths else None)


def _mean(points: Iterable[tuple[float, float]]) -> Rates:
    levels: dict[float, list[float]] = defaultdict(list)
    for level, rate in points:
        levels[level].append(rate)
    return {level: sum(rates) / len(rates) for level, rates in sorted(levels.items())}


def _curve(rates: Rates) -> ThroughputCurve:
    return ThroughputCurve(concurrency=tuple(rates), tokens_per_second=monotone(tuple(rates.values())))


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9]+(\.[0-9]+)?", text))
