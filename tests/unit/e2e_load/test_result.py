"""Figures are computed from records, and saved records give them again."""

import math

import pytest

from e2e.load.result import LoadResult, Outcome, Record, percentile, read_records, write_records


def record(index: int, *, start: float, latency: float, tokens: int = 10, outcome: Outcome = Outcome.COMPLETED) -> Record:
    return Record(
        index=index,
        marker=f"r-{index}",
        target="http://127.0.0.1:1",
        due_at=start,
        sent_at=start + 0.01,
        ended_at=start + latency,
        ttft_seconds=latency / 2,
        status=200,
        input_tokens=5,
        expected_tokens=tokens,
        output_tokens=tokens,
        outcome=outcome,
        error="" if outcome is Outcome.COMPLETED else "why",
    )


def test_percentiles_by_nearest_rank():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(list(map(float, range(1, 101))), 0.99) == 99.0
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.5))


def test_rates_and_latencies_of_completed_requests_only():
    result = LoadResult(
        records=(record(0, start=100, latency=2), record(1, start=104, latency=6), record(2, start=101, latency=1, outcome=Outcome.FAILED))
    )
    assert (result.sent, result.completed, result.failed) == (3, 2, 1)
    assert result.wall_seconds == 10
    assert result.mean_lag_seconds == pytest.approx(0.01)
    assert result.output_tokens_per_second == pytest.approx(2.0)
    assert result.mean_latency_seconds == pytest.approx(4.0)
    assert result.p99_latency_seconds == pytest.approx(6.0)
    assert result.problems() == ["failed r-2 at http://127.0.0.1:1: why"]


def test_nothing_sent_is_not_a_number():
    assert math.isnan(LoadResult(records=()).mean_latency_seconds)
    assert LoadResult(records=()).output_tokens_per_second == 0


def test_saved_records_are_the_same(tmp_path):
    records = (record(0, start=1, latency=2), record(1, start=1, latency=3, outcome=Outcome.LEAKED))
    write_records(tmp_path / "records.jsonl", records)
    assert read_records(tmp_path / "records.jsonl") == records
    assert read_records(tmp_path / "none.jsonl") == ()
