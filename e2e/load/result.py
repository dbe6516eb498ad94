"""What a run of load came to: one record a request, and the figures that are computed from them.

Every figure is computed from records alone, so that a saved JSONL file gives the same summary again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Outcome(StrEnum):
    """Exactly one for each request that was sent."""

    COMPLETED = "completed"
    FAILED = "failed"  # no answer, an error, a time-out, or more than one answer
    INCOMPLETE = "incomplete"  # an answer that lacks something
    LEAKED = "leaked"  # another request's marker in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request. Times are Unix seconds; latency and TTFT count from `due_at`, so that a late generator cannot hide waiting."""

    index: int
    marker: str
    target: str
    due_at: float
    sent_at: float
    ended_at: float
    ttft_seconds: float | None
    status: int
    input_tokens: int
    expected_tokens: int
    output_tokens: int
    outcome: Outcome
    error: str = ""
    served_by: dict[str, str] = field(default_factory=dict)

    @property
    def latency_seconds(self) -> float:
        return self.ended_at - self.due_at

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Record:
        return cls(**{**document, "outcome": Outcome(document["outcome"])})


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile (`share` in 0…1) of values in any order; NaN where there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Counts and figures of one run. Latencies are in seconds and only of completed requests; NaN where there is none."""

    records: tuple[Record, ...]
    cpu_seconds: float = 0.0
    worst_lag_seconds: float = 0.0
    peak_in_flight: int = 0

    def count(self, outcome: Outcome) -> int:
        return Counter(record.outcome for record in self.records)[outcome]

    @property
    def sent(self) -> int:
        return len(self.records)

    @property
    def completed(self) -> int:
        return self.count(Outcome.COMPLETED)

    @property
    def failed(self) -> int:
        return self.count(Outcome.FAILED)

    @property
    def incomplete(self) -> int:
        return self.count(Outcome.INCOMPLETE)

    @property
    def marker_leaks(self) -> int:
        return self.count(Outcome.LEAKED)

    @property
    def latencies_seconds(self) -> list[float]:
        return [record.latency_seconds for record in self.records if record.outcome is Outcome.COMPLETED]

    @property
    def mean_latency_seconds(self) -> float:
        values = self.latencies_seconds
        return sum(values) / len(values) if values else math.nan

    @property
    def p50_latency_seconds(self) -> float:
        return percentile(self.latencies_seconds, 0.5)

    @property
    def p99_latency_seconds(self) -> float:
        return percentile(self.latencies_seconds, 0.99)

    @property
    def mean_ttft_seconds(self) -> float:
        values = [record.ttft_seconds for record in self.records if record.ttft_seconds is not None]
        return sum(values) / len(values) if values else math.nan

    @property
    def mean_lag_seconds(self) -> float:
        """How late the generator was with a request: what a machine without spare CPU adds to every latency."""
        return sum(record.sent_at - record.due_at for record in self.records) / len(self.records) if self.records else 0.0

    @property
    def wall_seconds(self) -> float:
        """From the first request that was due to the end of the last answer."""
        if not self.records:
            return 0.0
        return max(record.ended_at for record in self.records) - min(record.due_at for record in self.records)

    @property
    def output_tokens_per_second(self) -> float:
        """Tokens of completed answers over the wall time, waiting and the last answers' tail included."""
        tokens = sum(record.output_tokens for record in self.records if record.outcome is Outcome.COMPLETED)
        return tokens / self.wall_seconds if self.wall_seconds > 0 else 0.0

    def problems(self, limit: int = 5) -> list[str]:
        """The first few requests that were not completed, each with its marker and what was wrong."""
        bad = [record for record in self.records if record.outcome is not Outcome.COMPLETED]
        return [f"{record.outcome} {record.marker} at {record.target}: {record.error}" for record in bad[:limit]]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))


def read_records(path: Path) -> tuple[Record, ...]:
    """What `write_records` wrote, or a generator that was killed had written so far; none where there is no file."""
    if not path.is_file():
        return ()
    return tuple(Record.from_document(json.loads(line)) for line in path.read_text().splitlines() if line.strip())
