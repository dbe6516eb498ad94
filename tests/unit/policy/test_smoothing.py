import math

import pytest

from mtpilot.policy.smoothing import smooth, time_constant_seconds, weight
from tests.unit.policy.builders import spec


def test_the_default_is_five_minutes():
    assert time_constant_seconds(spec()) == 300.0


@pytest.mark.parametrize(("down", "expected"), [("30s", 50.0), ("0s", 0.0), ("1h", 6000.0), ("600ms", 1.0)])
def test_it_scales_with_the_stabilization(down, expected):
    assert time_constant_seconds(spec(policy={"stabilization": {"down": down}})) == pytest.approx(expected)


def test_the_first_sample_is_taken_as_it_is():
    assert smooth(None, 800.0, elapsed_seconds=None, time_constant_seconds=300.0) == 800.0
    assert smooth(500.0, 800.0, elapsed_seconds=None, time_constant_seconds=300.0) == 800.0


def test_after_one_time_constant_63_percent_are_taken():
    assert smooth(0.0, 100.0, elapsed_seconds=300.0, time_constant_seconds=300.0) == pytest.approx(100 * (1 - math.exp(-1)))


@pytest.mark.parametrize("steps", [1, 2, 7, 60])
def test_the_number_of_ticks_does_not_matter(steps):
    """The same constant load over the same time gives the same average, however often one looks."""
    value = 200.0
    for _ in range(steps):
        value = smooth(value, 1000.0, elapsed_seconds=120.0 / steps, time_constant_seconds=300.0)
    assert value == pytest.approx(1000 - 800 * math.exp(-0.4))


def test_a_look_without_time_between_changes_nothing():
    assert smooth(500.0, 9000.0, elapsed_seconds=0.0, time_constant_seconds=300.0) == 500.0


def test_after_a_long_absence_the_old_average_is_dropped():
    assert smooth(500.0, 100.0, elapsed_seconds=1501.0, time_constant_seconds=300.0) == 100.0
    assert smooth(500.0, 100.0, elapsed_seconds=1499.0, time_constant_seconds=300.0) != 100.0


def test_a_time_constant_of_zero_smooths_nothing():
    assert smooth(500.0, 100.0, elapsed_seconds=1.0, time_constant_seconds=0.0) == 100.0


@pytest.mark.parametrize(("elapsed", "constant", "expected"), [(0.0, 10.0, 0.0), (-5.0, 10.0, 0.0), (1e9, 10.0, 1.0), (1.0, 0.0, 1.0)])
def test_weights_stay_between_zero_and_one(elapsed, constant, expected):
    assert weight(elapsed, constant) == pytest.approx(expected)
