"""What holds for every profile: curves rise, scaling changes nothing, equal inputs conclude the same."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtpilot.curves.conclusion import conclude
from mtpilot.curves.of_profile import conclusion_at, curve_pair
from tests.unit.curves.builders import curve, fitted, mtp_curve, spec

FEW = settings(max_examples=25, deadline=None)
RATES = st.lists(st.floats(min_value=1.0, max_value=5000.0), min_size=3, max_size=8)


def points(rates: list[float]) -> tuple[tuple[int, float], ...]:
    return tuple((2**index, rate) for index, rate in enumerate(rates))


def both(mtp: list[float], batch: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
    return mtp_curve(points(mtp)), curve(points(batch))


@FEW
@given(RATES, RATES)
def test_curves_never_fall_with_and_without_a_fit(mtp, batch):
    for profile in (spec(*both(mtp, batch)), fitted(*both(mtp, batch))):
        pair, context = curve_pair(profile, 1000)
        assert context == 1000
        for found in (pair.mtp, pair.batch):
            assert list(found.tokens_per_second) == sorted(found.tokens_per_second)
            assert len(found.concurrency) <= 64


@FEW
@given(RATES, RATES, st.floats(min_value=0.1, max_value=10.0))
def test_scaling_both_curves_changes_no_conclusion(mtp, batch, factor):
    pair, _ = curve_pair(spec(*both(mtp, batch)), 1000)
    scaled = type(pair)(mtp=pair.mtp.scaled(factor), batch=pair.batch.scaled(factor))
    before, after = conclude(pair), conclude(scaled)
    assert before.verdict is after.verdict
    assert before.above is after.above
    if before.crossover is not None:
        assert after.crossover == pytest.approx(before.crossover, rel=1e-6)


@FEW
@given(RATES, RATES)
def test_a_conclusion_is_consistent(mtp, batch):
    profile = spec(*both(mtp, batch))
    found = conclusion_at(profile, 1000)
    assert found == conclusion_at(profile, 1000)
    assert 0 <= found.probability_none <= 1
    assert (found.crossover is None) == (found.above is None) == (found.bound is None)
    if found.low is not None and found.high is not None and found.crossover is not None:
        assert found.low <= found.high
