from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtpilot.policy.forecast import Load
from mtpilot.policy.wavering import LEAST_MINUTES, MINUTES, NOTHING_SEEN, Lately, note_demand, waiting, wavering
from tests.unit.policy.test_forecast import OPEN, forecast

CALM, BURSTS = (60.0,) * 60, (240.0, 0.0, 0.0, 0.0) * 15


def lately_after(samples: int, seconds: float = 10.0) -> Lately:
    lately = NOTHING_SEEN
    for i in range(samples):
        lately = note_demand(lately, float(i), elapsed_seconds=seconds)
    return lately


def test_samples_make_minutes():
    assert list(lately_after(6).minutes) == pytest.approx([2.5])
    assert lately_after(5).minutes == ()


def test_an_hour_is_kept():
    assert len(lately_after(70, 60.0).minutes) == MINUTES
    assert lately_after(70, 60.0).minutes[-1] == 69.0


def test_what_waits_is_the_area_under_the_queue():
    assert waiting((150.0, 50.0), 100.0) == pytest.approx(50 / 2 + 50 / 2)
    assert waiting((150.0, 0.0), 100.0) == pytest.approx(50 / 2 + 50 * 0.5 / 2), "gone after half a minute"
    assert waiting((75.0, 25.0), 50.0) * 2 == waiting((150.0, 50.0), 100.0)


@settings(max_examples=30)
@given(st.lists(st.floats(0, 300), min_size=1, max_size=30), st.floats(10, 200), st.floats(0, 100))
def test_a_larger_capacity_never_makes_more_wait(minutes, capacity, more):
    assert waiting(minutes, capacity + more) <= waiting(minutes, capacity) + 1e-6


@settings(max_examples=30)
@given(st.lists(st.floats(0, 300), min_size=LEAST_MINUTES, max_size=MINUTES), st.floats(1, 300), st.floats(1, 400), st.floats(0.01, 10))
def test_the_table_is_what_a_queue_gives_whatever_the_scale(minutes, demand, capacity, requests_per_token):
    """Between two of its capacities it is a line."""
    table = wavering(tuple(minutes))
    assume(table.mean > 1.0)
    scaled = [minute * demand / table.mean for minute in minutes]
    steady = max(0.0, demand - capacity) * len(minutes) ** 2 / 2
    exact = max(0.0, waiting(scaled, capacity) - steady) / len(minutes) * requests_per_token
    most = max(scaled) * len(minutes) * requests_per_token  # that could wait, were nothing served
    assert table.waits(demand, capacity, requests_per_token) == pytest.approx(exact, abs=2e-4 * most)


class TestForecast:
    def bursty(self, minutes: tuple[float, ...] = BURSTS) -> Load:
        return replace(OPEN, lately=minutes)

    def test_bursts_above_the_capacity_are_priced(self):
        """The mean is 60 tok/s in both, a replica alone serves 100."""
        calm, bursty = (forecast(1, 0, self.bursty(minutes)).costs([0])[0] for minutes in (CALM, BURSTS))
        peak = 240 - 100
        waits = (peak / 2 + peak * (peak / 100) / 2) * 15
        assert bursty - calm == pytest.approx(waits, rel=0.002)

    def test_bursts_that_the_capacity_carries_cost_nothing(self):
        assert forecast(4, 0, self.bursty()).costs([0]) == forecast(4, 0, self.bursty(CALM)).costs([0])

    def test_too_few_minutes_tell_nothing(self):
        assert forecast(1, 0, self.bursty(BURSTS[: LEAST_MINUTES - 1])).costs([0]) == forecast(1, 0).costs([0])

    def test_they_are_scaled_to_the_demand_that_is_forecast(self):
        quiet = replace(self.bursty(), demand=20.0)
        assert forecast(1, 0, quiet).costs([0]) == forecast(1, 0, replace(quiet, lately=CALM)).costs([0])

    def test_an_idle_hour_divides_nothing_by_zero(self):
        assert forecast(1, 0, self.bursty((0.0,) * 60)).costs([0]) == forecast(1, 0).costs([0])
