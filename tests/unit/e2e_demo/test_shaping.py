"""The demo's load is the trace's own requests, compressed in time by the stated formula and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.demo.parameters import FULL_SHARES, QUICK_SHARES, Parameters, compression, quick, schedule
from e2e.demo.shaping import Compression, TraceRow, read_trace, shape


def rows(*times: float) -> list[TraceRow]:
    return [TraceRow(at_seconds=at, input_tokens=10 + index, output_tokens=20 + index) for index, at in enumerate(times)]


def test_a_constant_factor_divides_every_gap():
    shaped = shape(rows(0, 1, 3, 7, 20), Compression(points=((0.0, 2.0),)), seconds=5)
    assert [request.at_seconds for request in shaped.requests] == [0, 0.5, 1.5, 3.5]
    assert [request.output_tokens for request in shaped.requests] == [20, 21, 22, 23]


def test_the_factor_is_a_straight_line_between_points():
    line = Compression(points=((10.0, 2.0), (20.0, 6.0)))
    assert [line.at(seconds) for seconds in (0, 10, 15, 20, 99)] == [2, 2, 4, 6, 6]


def test_a_gap_uses_the_factor_at_its_beginning():
    shaped = shape(rows(0, 4, 8, 100), Compression(points=((0.0, 1.0), (4.0, 2.0))), seconds=10)
    assert [request.at_seconds for request in shaped.requests] == [0, 4, 6]


@pytest.mark.parametrize("points", [(), ((1.0, 1.0), (1.0, 2.0)), ((2.0, 1.0), (1.0, 2.0)), ((0.0, 0.0),)])
def test_compression_needs_rising_times_and_positive_factors(points):
    with pytest.raises(ValueError, match="compression needs"):
        Compression(points=points)


def test_a_trace_that_ends_too_early_is_refused():
    with pytest.raises(ValueError, match="last only 1 of 5 s"):
        shape(rows(0, 1, 2), Compression(points=((0.0, 2.0),)), seconds=5)


@given(gaps=st.lists(st.floats(0, 5), min_size=3, max_size=60), factors=st.lists(st.floats(0.5, 30), min_size=1, max_size=4))
def test_order_lengths_and_the_formula_are_kept(gaps, factors):
    times = [0.0]
    for gap in [*gaps, 10_000.0]:
        times.append(times[-1] + gap)
    trace = rows(*times)
    k = Compression(points=tuple((index * 3.0, factor) for index, factor in enumerate(factors)))
    shaped = shape(trace, k, seconds=100.0).requests
    assert [request.output_tokens for request in shaped] == [row.output_tokens for row in trace[: len(shaped)]]
    for index in range(1, len(shaped)):
        before, now = shaped[index - 1].at_seconds, shaped[index].at_seconds
        recorded = trace[index].at_seconds - trace[index - 1].at_seconds
        assert (now - before) * k.at(before) == pytest.approx(recorded, abs=1e-3)


def test_the_recorded_trace_is_whole():
    trace = read_trace()
    assert len(trace) == 4500
    assert trace[0] == TraceRow(at_seconds=0.0, input_tokens=374, output_tokens=44)
    assert trace[1].at_seconds == pytest.approx(4.314579, abs=1e-6)
    assert trace[-1].at_seconds == pytest.approx(917.98, abs=0.01)


@pytest.mark.parametrize("parameters", [Parameters(), quick(baselines=False)])
def test_the_load_goes_low_above_the_mtp_cap_and_low_again(parameters):
    arrivals = schedule(parameters, read_trace())
    assert len(arrivals.requests) >= 1000
    assert arrivals.seconds <= parameters.seconds

    def rate(start: float, end: float) -> float:
        return sum(r.output_tokens for r in arrivals.requests if start <= r.at_seconds < end) / (end - start)

    times = [at for at, _ in parameters.shares]
    top = max(range(len(times)), key=lambda index: parameters.shares[index][1])
    cap = parameters.mtp_tokens_per_second
    assert rate(0, times[1]) < 0.6 * cap
    assert cap < rate(times[top], times[top + 1]) < 0.9 * parameters.batch_tokens_per_second
    assert rate(times[-2], times[-1]) < 0.5 * cap


def test_factors_bring_the_mean_of_the_trace_to_the_wished_share():
    trace = read_trace()
    mean = sum(row.output_tokens for row in trace) / trace[-1].at_seconds
    parameters = Parameters()
    for (_, factor), (_, share) in zip(compression(parameters, trace).points, FULL_SHARES, strict=True):
        assert factor * mean == pytest.approx(share * parameters.mtp_tokens_per_second)


def test_quick_is_shorter():
    assert QUICK_SHARES[-1][0] < FULL_SHARES[-1][0]
