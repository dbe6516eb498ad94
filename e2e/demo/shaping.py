"""From the recorded trace to the demo's load: the trace's own requests and gaps, run through faster and slower.

Nothing is invented, repeated or left out: row i of the trace is request i of the demo, with its own input and output
tokens. Only time is compressed, by a factor that changes as the demo goes on:

    at[i+1] = at[i] + (trace[i+1] - trace[i]) / k(at[i])

where k is a straight line between the demo's (seconds, factor) points. So the load rises and falls because the trace is
replayed faster or slower; its bursts, its order and its mix of lengths stay as recorded.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from e2e.load.schedule import Request, Schedule

TRACE = Path(__file__).resolve().parents[1] / "data" / "azure2023_conv_first4500.csv"
_TIMESTAMP_DIGITS = 26  # seven decimals are written, Python reads six


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One recorded request; `at_seconds` from the first one."""

    at_seconds: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """k over demo time: (seconds, factor) points in order of time, constant before the first and after the last."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        times = [at for at, _ in self.points]
        if not times or times != sorted(set(times)) or min(factor for _, factor in self.points) <= 0:
            raise ValueError("compression needs points in rising order of time with positive factors")

    def at(self, seconds: float) -> float:
        """The factor at a demo time."""
        times = [at for at, _ in self.points]
        above = bisect_right(times, seconds)
        if above == 0:
            return self.points[0][1]
        if above == len(times):
            return self.points[-1][1]
        (t0, k0), (t1, k1) = self.points[above - 1], self.points[above]
        return k0 + (k1 - k0) * (seconds - t0) / (t1 - t0)


def read_trace(path: Path = TRACE) -> tuple[TraceRow, ...]:
    """Rows `TIMESTAMP,ContextTokens,GeneratedTokens` in order of time."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:_TIMESTAMP_DIGITS]) for row in rows]
    return tuple(
        TraceRow(
            at_seconds=(at - times[0]).total_seconds(), input_tokens=int(row["ContextTokens"]), output_tokens=int(row["GeneratedTokens"])
        )
        for at, row in zip(times, rows, strict=True)
    )


def shape(rows: Sequence[TraceRow], compression: Compression, *, seconds: float) -> Schedule:
    """Replay `rows` for `seconds` of demo time; ValueError where the trace is too short for that."""
    requests: list[Request] = []
    at, previous = 0.0, rows[0].at_seconds
    for row in rows:
        at += (row.at_seconds - previous) / compression.at(at)
        previous = row.at_seconds
        if at > seconds:
            return Schedule(requests=tuple(requests))
        requests.append(Request(at_seconds=round(at, 6), input_tokens=max(1, row.input_tokens), output_tokens=max(1, row.output_tokens)))
    raise ValueError(f"the trace's {len(rows)} requests last only {at:.0f} of {seconds:.0f} s at this compression")
