"""Crossover, what binds, uncertainty and verdict."""

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Verdict
from mtpilot.curves.conclusion import conclude
from tests.unit.curves.builders import pair, power


def test_beyond_the_mtp_slots_batch_wins_by_its_own():
    found = conclude(pair(), mtp_error=0.015, batch_error=0.015)
    assert (found.verdict, found.above, found.bound) == (Verdict.FLIP, Mode.BATCH, Bound.SLOTS)
    assert found.crossover == pytest.approx((121.5 * 24**0.83 / 108) ** (1 / 0.771), rel=0.01)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 35.7 < found.high
    assert found.batch_gain == pytest.approx(108 * 68**0.771 / (121.5 * 24**0.83) - 1, rel=0.01)


def test_the_interval_is_that_of_the_level_of_the_curves():
    """A shift of the log ratio by 1.645 standard errors moves the crossover of a power law by that over its exponent."""
    found = conclude(pair(), mtp_error=0.03, batch_error=0.04)
    assert found.crossover is not None
    assert found.high is not None
    assert found.high / found.crossover == pytest.approx(2.718281828 ** (1.645 * 0.05 / 0.771), rel=0.01)


def test_at_equal_slots_a_slower_mode_is_bound_by_compute():
    found = conclude(pair(mtp=power(150, 0.6, 68), batch=power(100, 0.8, 68)))
    assert (found.verdict, found.above, found.bound) == (Verdict.FLIP, Mode.BATCH, Bound.COMPUTE)
    assert found.crossover == pytest.approx(1.5**5, rel=0.02)


def test_some_pairs_cross_the_other_way():
    found = conclude(pair(mtp=power(50, 0.9, 68), batch=power(100, 0.6, 68)))
    assert (found.verdict, found.above, found.bound) == (Verdict.FLIP, Mode.MTP, Bound.COMPUTE)


@pytest.mark.parametrize(
    ("mtp", "batch", "verdict"),
    [
        (power(130, 0.8, 68), power(100, 0.8, 68), Verdict.MTP_ONLY),
        (power(70, 0.8, 68), power(100, 0.8, 68), Verdict.BATCH_ONLY),
    ],
)
def test_a_pair_that_never_crosses_says_none(mtp, batch, verdict):
    found = conclude(pair(mtp=mtp, batch=batch))
    assert found.verdict is verdict
    assert (found.crossover, found.low, found.high, found.above, found.bound) == (None, None, None, None, None)
    assert found.probability_none > 0.95


def test_a_crossover_that_gains_nothing_is_no_reason_to_flip():
    """Batch is 2 % better at the top: less than is seen in operation."""
    found = conclude(pair(mtp=power(130, 0.8, 68), batch=power(100, 0.8674, 68)), mtp_error=0.001, batch_error=0.001)
    assert found.crossover is not None
    assert 0 < found.batch_gain < 0.03
    assert found.verdict is Verdict.MTP_ONLY


def test_a_doubtful_crossover_has_a_share_of_draws_without_one():
    found = conclude(pair(mtp=power(130, 0.8, 68), batch=power(100, 0.875, 68)), mtp_error=0.03, batch_error=0.03)
    assert 0.05 < found.probability_none < 0.6


def test_the_last_of_several_crossings_counts():
    mtp = ((1, 80.0), (2, 190.0), (4, 400.0), (8, 500.0))
    batch = ((1, 100.0), (2, 180.0), (4, 300.0), (8, 600.0))
    found = conclude(pair(mtp=mtp, batch=batch), mtp_error=0.01, batch_error=0.01)
    assert found.above is Mode.BATCH
    assert found.crossover is not None
    assert 4 < found.crossover < 8


@pytest.mark.parametrize(
    ("mtp", "batch", "above", "crossover"),
    [
        (((1, 100.0), (16, 800.0), (64, 1000.0)), ((1, 60.0), (16, 800.0), (64, 2000.0)), Mode.BATCH, 16),
        (((1, 60.0), (16, 800.0), (64, 2000.0)), ((1, 100.0), (16, 800.0), (64, 1000.0)), Mode.MTP, 16),
        (((1, 100.0), (8, 500.0), (32, 800.0), (64, 900.0)), ((1, 60.0), (8, 500.0), (32, 800.0), (64, 1500.0)), Mode.BATCH, 32),
        (((1, 100.0), (8, 500.0), (64, 900.0)), ((1, 100.0), (8, 500.0), (64, 1500.0)), None, None),
        (((1, 100.0), (8, 500.0), (64, 900.0)), ((1, 60.0), (8, 500.0), (64, 900.0)), None, None),
    ],
)
def test_curves_that_meet_at_a_level_or_over_a_stretch_cross_where_they_part(mtp, batch, above, crossover):
    found = conclude(pair(mtp=mtp, batch=batch), mtp_error=0, batch_error=0)
    assert found.above is above
    assert found.crossover == (None if crossover is None else pytest.approx(crossover))


def test_equal_curves_are_no_crossover():
    found = conclude(pair(mtp=power(100, 0.8, 68), batch=power(100, 0.8, 68)), mtp_error=0, batch_error=0)
    assert found.crossover is None


def test_a_pair_with_one_slot_each_is_concluded():
    found = conclude(pair(mtp=((1, 120.0),), batch=((1, 100.0),)))
    assert found.verdict is Verdict.MTP_ONLY
