"""A finished run of the bench, made up."""

import pytest

from e2e.bench_gateway.omlx import Matrix
from e2e.bench_gateway.parameters import Parameters
from e2e.bench_gateway.phases import Tiny
from e2e.bench_gateway.run import MTPILOT, ROWS, Outcome, Row
from e2e.load import LoadResult, Record
from e2e.load import Outcome as Verdict


def records(count: int, *, latency_seconds: float, failed: int = 0) -> LoadResult:
    """Answers of 100 tokens each, the first `failed` of them missing."""
    made = []
    for index in range(count):
        good = index >= failed
        made.append(
            Record(
                index=index,
                marker=f"m-{index}",
                target="http://127.0.0.1:1",
                due_at=float(index),
                sent_at=float(index),
                ended_at=index + latency_seconds,
                ttft_seconds=0.1 if good else None,
                status=200 if good else 503,
                input_tokens=10,
                expected_tokens=100,
                output_tokens=100 if good else 0,
                outcome=Verdict.COMPLETED if good else Verdict.FAILED,
                error="" if good else "HTTP 503",
            )
        )
    return LoadResult(records=tuple(made))


def row(*, latency_seconds: float = 1.0, flip_failed: int = 0, mixed_failed: int = 0, p99_ms: float = 0.5, rate: float = 20_000.0) -> Row:
    tiny = Tiny(added_p50_seconds=1e-4, added_p99_seconds=p99_ms / 1000, requests_per_second=rate, failed=0)
    mixed = records(20, latency_seconds=latency_seconds, failed=mixed_failed)
    return Row(mixed=mixed, flipped=records(10, latency_seconds=1.0, failed=flip_failed), flip_seconds=4.0, tiny=tiny, removal="by hand")


def matrix(*, four: float = 108.0, alone_mode: str = "mtp") -> Matrix:
    modes = ("batch", "batch", "batch", "mtp")
    return Matrix(alone=45.7, four=four, plain_four=107.4, mixed_four=69.3, alone_modes=(alone_mode,), four_modes=modes)


@pytest.fixture
def outcome() -> Outcome:
    """Every goal is met: latency a fifth below all others."""
    made = Outcome(parameters=Parameters(), rows={name: row() for name in ROWS}, matrices={"greedy": matrix(), "sampled": matrix()})
    made.rows[MTPILOT] = row(latency_seconds=0.8)
    return made
