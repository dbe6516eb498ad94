"""A schedule keeps its bounds and survives being written."""

import pytest

from e2e.load.schedule import MAX_REQUESTS, MAX_SECONDS, Request, Schedule, steady


def one(at: float = 0.0, **changes: int) -> Request:
    return Request(**{"at_seconds": at, "input_tokens": 1, "output_tokens": 1, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ((), "at least one request"),
        ((one(2), one(1)), "in order of time"),
        ((one(-1),), "from 0 on"),
        ((one(MAX_SECONDS + 1),), "of load are sent in one run"),
        ((one(),) * (MAX_REQUESTS + 1), "are sent in one run"),
        ((one(output_tokens=0),), "at least one input and one output token"),
    ],
)
def test_bounds(requests, message):
    with pytest.raises(ValueError, match=message):
        Schedule(requests=requests)


def test_steady_has_its_rate_and_is_repeatable():
    schedule = steady(per_second=50, seconds=40, output_tokens=7, seed=3)
    assert len(schedule.requests) == pytest.approx(2000, rel=0.1)
    assert schedule.seconds < 40
    assert schedule == steady(per_second=50, seconds=40, output_tokens=7, seed=3)
    assert schedule != steady(per_second=50, seconds=40, output_tokens=7, seed=4)
    assert schedule.output_tokens == 7 * len(schedule.requests)


def test_written_and_read_again(tmp_path):
    schedule = steady(per_second=10, seconds=5)
    schedule.write(tmp_path / "schedule.json")
    assert Schedule.read(tmp_path / "schedule.json") == schedule
