"""Read recorded traffic, whatever its publisher's format, as arrivals by the minute.

The format is told by the header (or, for JSON lines, by the first object): Azure 2023 and Mooncake give single requests,
ServeGen gives rates. A request trace keeps its own bursts and lengths; a rate trace has neither, and says so.
"""

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SECONDS_PER_MINUTE = 60.0
MINUTES_PER_DAY = 1440
_TIMESTAMP_DIGITS = 26  # Azure writes seven decimals, Python reads six

Floats = NDArray[np.float64]


class TraceError(ValueError):
    """A file that is no trace, with the line that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Arrivals by the minute, from the trace's beginning; whole minutes only.

    requests_per_minute: (minutes,) requests that arrive in each.
    output_tokens_per_minute: (minutes,) tokens that these requests ask for; None: the trace has rates, no lengths.
    """

    name: str
    requests_per_minute: Floats
    output_tokens_per_minute: Floats | None = None

    @property
    def minutes(self) -> int:
        return len(self.requests_per_minute)

    @property
    def mean_output_tokens(self) -> float | None:
        """Output tokens of a request over the whole trace; None where the trace has no lengths."""
        if self.output_tokens_per_minute is None:
            return None
        return float(self.output_tokens_per_minute.sum() / self.requests_per_minute.sum())

    def cut(self, first_minute: int, minutes: int) -> "Trace":
        """At most `minutes` of it, from `first_minute` on."""
        part = slice(first_minute, first_minute + minutes)
        tokens = None if self.output_tokens_per_minute is None else self.output_tokens_per_minute[part]
        return replace(self, requests_per_minute=self.requests_per_minute[part], output_tokens_per_minute=tokens)

    def day(self, index: int) -> "Trace":
        """The day `index` days after the beginning, or what there is of it."""
        return self.cut(index * MINUTES_PER_DAY, MINUTES_PER_DAY)


def read_trace(path: Path) -> Trace:
    """The trace in `path`, named after the file.

    Raises:
        TraceError: unknown format, a value that is none, time that runs backwards, or less than one minute; names the line.
        OSError: the file cannot be read.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        return parse_trace(path.stem, file)


def parse_trace(name: str, lines: Iterable[str]) -> Trace:
    """See `read_trace`."""
    rows = iter(lines)
    head = next((line for line in rows if line.strip()), None)
    if head is None:
        raise TraceError(f"{name}: the file is empty")
    if head.lstrip().startswith("{"):
        return _requests(name, _json_lines(name, head, rows))
    columns = tuple(column.strip() for column in head.strip().split(","))
    for needed, read in _CSV_FORMATS.items():
        if set(needed) <= set(columns):
            return read(name, _csv_rows(name, columns, needed, rows))
    known = "; ".join(",".join(needed) for needed in _CSV_FORMATS)
    shown = ",".join(columns)[:80]
    raise TraceError(f"{name}:1: unknown columns {shown!r}; known: {known}; or JSON lines with timestamp, output_length")


Row = tuple[int, float, float]  # line, seconds, tokens or requests per second


def _csv_rows(name: str, columns: Sequence[str], needed: Sequence[str], lines: Iterator[str]) -> Iterator[Row]:
    at, value = columns.index(needed[0]), columns.index(needed[1])
    seconds = _CLOCKS[needed[0]]
    for line, cells in enumerate(csv.reader(lines), start=2):
        if not cells:
            continue
        try:
            yield line, seconds(cells[at]), _amount(cells[value])
        except (ValueError, IndexError) as error:
            raise TraceError(f"{name}:{line}: {error}") from error


def _json_lines(name: str, head: str, lines: Iterator[str]) -> Iterator[Row]:
    """Mooncake's own format: {"timestamp": ms, "input_length": …, "output_length": …, …}."""
    for line, text in enumerate((head, *lines), start=1):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
            yield line, _amount(found["timestamp"]) / 1000, _amount(found["output_length"])
        except KeyError as error:
            raise TraceError(f"{name}:{line}: no {error} in this object") from error
        except (ValueError, TypeError) as error:
            raise TraceError(f"{name}:{line}: {error}") from error


def _amount(text: str | float) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is not a finite number from 0 on")
    return value


def _clock_seconds(text: str) -> float:
    return datetime.fromisoformat(text.strip()[:_TIMESTAMP_DIGITS]).replace(tzinfo=UTC).timestamp()


_CLOCKS: dict[str, Callable[[str], float]] = {
    "TIMESTAMP": _clock_seconds,
    "timestamp_ms": lambda text: _amount(text) / 1000,
    "t_seconds": _amount,
}


def _in_order(name: str, rows: Iterable[Row]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        if found and row[1] < found[-1][1]:
            raise TraceError(f"{name}:{row[0]}: time runs backwards: {row[1]:g} s after {found[-1][1]:g} s")
        found.append(row)
    if not found or found[-1][1] - found[0][1] < SECONDS_PER_MINUTE:
        raise TraceError(f"{name}: less than one minute of traffic")
    return found


def _requests(name: str, rows: Iterable[Row]) -> Trace:
    """Single requests, counted into minutes; the last minute, which the trace does not fill, is left out."""
    _, at, tokens = np.array(_in_order(name, rows)).T
    minute = ((at - at[0]) // SECONDS_PER_MINUTE).astype(int)
    whole = int((at[-1] - at[0]) // SECONDS_PER_MINUTE)
    return Trace(
        name=name,
        requests_per_minute=np.bincount(minute, minlength=whole)[:whole].astype(float),
        output_tokens_per_minute=np.bincount(minute, weights=tokens, minlength=whole)[:whole].astype(float),
    )


def _rates(name: str, rows: Iterable[Row]) -> Trace:
    """Requests per second at some times; a straight line between two of them."""
    _, at, rate = np.array(_in_order(name, rows)).T
    seconds = np.arange(0, at[-1] - at[0], SECONDS_PER_MINUTE)
    return Trace(name=name, requests_per_minute=np.interp(seconds, at - at[0], rate) * SECONDS_PER_MINUTE)


# columns that a format is told by (time, value) → what its rows are
_CSV_FORMATS: dict[tuple[str, str], Callable[[str, Iterable[Row]], Trace]] = {
    ("TIMESTAMP", "GeneratedTokens"): _requests,
    ("timestamp_ms", "output_length"): _requests,
    ("t_seconds", "total_rps"): _rates,
}
