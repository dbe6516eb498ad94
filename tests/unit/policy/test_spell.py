"""Spells: for how long a closed loop stays on one side of the crossover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtpilot.policy.loop import sharpened
from mtpilot.policy.spell import FIRST_SPELL, SHORTEST_LEFT_MINUTES, Spell, ahead, go_on, left_minutes

HOUR = 60.0


def alternating(half_minutes: int, halves: int) -> Spell:
    """A job of few clients, for whom mtp serves 200 against 100 tok/s, and of many, 200 against 320, in turn."""
    spell = FIRST_SPELL
    for minute in range(half_minutes * halves):
        many = minute // half_minutes % 2
        spell = go_on(
            spell, batch=bool(many), mtp_rate=200.0, batch_rate=320.0 if many else 100.0, elapsed_minutes=1.0, horizon_minutes=HOUR
        )
    return spell


class TestLeftMinutes:
    def test_before_any_spell_has_ended_the_load_stays_as_it_is(self):
        assert left_minutes(alternating(50, 1), HOUR) == HOUR

    def test_a_regular_one_ends_when_its_time_is_up(self):
        spell = alternating(20, 12)
        assert spell.usual_minutes == pytest.approx(20.0, abs=1.0)
        begun = Spell(batch=True, minutes=4.0, usual_minutes=spell.usual_minutes, spread_minutes=0.0)
        assert left_minutes(begun, HOUR) == pytest.approx(16.0, abs=1.0)

    def test_an_irregular_one_may_go_on_for_as_long_as_they_usually_last(self):
        assert left_minutes(Spell(batch=True, minutes=30.0, usual_minutes=30.0, spread_minutes=30.0), HOUR) == 30.0

    def test_one_that_has_lasted_its_time_is_not_over_yet(self):
        assert left_minutes(Spell(batch=True, minutes=25.0, usual_minutes=20.0), HOUR) == SHORTEST_LEFT_MINUTES

    def test_the_horizon_is_the_most(self):
        assert left_minutes(alternating(240, 4), HOUR) == HOUR


class TestUsualRates:
    def test_both_halves_count(self):
        found = ahead(alternating(20, 12), 4, HOUR)
        assert found.mtp_rate == pytest.approx(4 * 200.0)
        assert found.batch_rate == pytest.approx(4 * 210.0, rel=0.05)
        assert found.best_rate == max(found.mtp_rate, found.batch_rate)

    def test_a_mix_is_between(self):
        found = ahead(alternating(20, 1), 2, HOUR)
        assert found.rate(0.5) == pytest.approx((found.mtp_rate + found.batch_rate) / 2)


@given(st.floats(0.0, 1.0))
def test_the_weight_that_counts_is_surer_and_takes_the_same_side(weight):
    found = sharpened(weight)
    assert 0.0 <= found <= 1.0
    assert abs(found - 0.5) >= abs(weight - 0.5) - 1e-12
    assert (found - 0.5) * (weight - 0.5) >= 0.0
