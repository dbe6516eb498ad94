"""Loads out of traces and schedules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mtpilot.simulate.loads import recorded, scaled
from mtpilot.simulate.schedules import SCHEDULES, ScheduleError, parse_schedule, random_levels, read_schedule
from mtpilot.simulate.traces import Trace

RATES = Trace(name="rates", requests_per_minute=np.linspace(60.0, 600.0, 100))
REQUESTS = Trace(name="requests", requests_per_minute=np.full(100, 6.0), output_tokens_per_minute=np.linspace(600.0, 6000.0, 100))


def test_scaled_to_the_95th_percentile():
    for trace in (RATES, REQUESTS):
        load = scaled(trace, peak_tokens_per_second=1000.0, seed=None)
        assert np.percentile(load.values, 95) == pytest.approx(1000.0)


def test_a_rate_trace_gets_noise_by_its_seed_and_a_request_trace_none():
    quiet, noisy, again = (scaled(RATES, peak_tokens_per_second=1000.0, seed=seed) for seed in (None, 5, 5))
    assert noisy.values.tolist() == again.values.tolist() != quiet.values.tolist()
    assert noisy.values.mean() == pytest.approx(quiet.values.mean(), rel=0.1)
    assert noisy.values * 60 / 1000 == pytest.approx(np.round(noisy.values * 60 / 1000))  # whole requests of 1000 tokens
    assert (
        scaled(REQUESTS, peak_tokens_per_second=1000.0, seed=5).values.tolist()
        == scaled(REQUESTS, peak_tokens_per_second=1000.0, seed=None).values.tolist()
    )


def test_tokens_of_a_request_come_from_the_trace_where_it_has_them():
    assert recorded(REQUESTS, output_tokens=7.0).output_tokens == pytest.approx(3300.0 / 6.0)
    assert recorded(RATES, output_tokens=7.0).output_tokens == 7.0
    assert recorded(RATES).output_tokens == 1000.0


def test_as_recorded_the_requests_are_those_of_the_trace():
    assert recorded(RATES, output_tokens=250.0).requests == pytest.approx(RATES.requests_per_minute.sum())
    assert recorded(REQUESTS).requests == pytest.approx(600.0)


def test_silence_cannot_be_scaled():
    with pytest.raises(ValueError, match="nothing arrives in 95 %"):
        scaled(Trace(name="empty", requests_per_minute=np.zeros(50)), peak_tokens_per_second=1.0, seed=None)


def test_a_schedule_is_clients_by_the_minute(tmp_path: Path):
    found = parse_schedule("jobs", ["minutes,clients", "2,4", "", "1,128"])
    assert found.closed
    assert found.values.tolist() == [4.0, 4.0, 128.0]
    (tmp_path / "night.csv").write_text("clients,minutes\n8,3\n")
    read = read_schedule(tmp_path / "night.csv", output_tokens=300.0)
    assert (read.name, read.values.tolist(), read.output_tokens) == ("night", [8.0, 8.0, 8.0], 300.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "columns minutes,clients are needed"),
        (["time,users"], "jobs:1: columns minutes,clients are needed, not 'time,users'"),
        (["minutes,clients"], "no steps"),
        (["minutes,clients", "1.5,3"], "jobs:2: invalid literal"),
        (["minutes,clients", "1,3", "0,3"], "jobs:3: minutes must be at least 1"),
        (["minutes,clients", "1,-3"], "jobs:2: minutes must be at least 1 and clients a finite number"),
        (["minutes,clients", "1,inf"], "jobs:2: "),
        (["minutes,clients", "1"], "jobs:2: list index out of range"),
    ],
)
def test_what_is_no_schedule_is_told_with_its_line(lines: list[str], message: str):
    with pytest.raises(ScheduleError) as raised:
        parse_schedule("jobs", lines)
    assert message in str(raised.value)


def test_the_three_schedules_grow_with_the_fleet():
    for make in SCHEDULES:
        one, four = make(1), make(4)
        assert one.closed
        assert (4 * one.values).tolist() == four.values.tolist()
    assert random_levels(1).minutes == 2880
    assert random_levels(1).values[:3].tolist() == random_levels(1).values[:3].tolist()


def test_another_part_of_a_trace_is_scaled_by_the_same_factor():
    whole = Trace(name="rates", requests_per_minute=np.array([2.0] * 40 + [4.0] * 40))
    first, second = whole.cut(0, 40), whole.cut(40, 40)
    assert scaled(first, peak_tokens_per_second=100.0, seed=None, as_in=second).values.tolist() == pytest.approx([50.0] * 40)
