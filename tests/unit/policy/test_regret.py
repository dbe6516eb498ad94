from dataclasses import replace

import pytest

from mtpilot.curves.curve import CurvePair
from mtpilot.policy.forecast import Forecast, Terms
from mtpilot.policy.predictive import DEFAULT_SETTINGS, Choice, Memory, choose_with_regret
from mtpilot.policy.regret import NO_REGRET, Regret, better_step, gain, note_regret
from tests.unit.policy.builders import curve
from tests.unit.policy.test_forecast import OPEN, forecast

LONE = CurvePair(mtp=curve((2, 100)), batch=curve((2, 110)))  # batch holds a tenth less, whatever the load
TERMS = Terms(horizon_minutes=60.0, flip_minutes=1.0)
STAY = Choice(best=0, price=0.0, due=False)


def lone(batch: int = 0, *, demand: float = OPEN.demand, closed_weight: float = 0.0) -> Forecast:
    return forecast(1, batch, replace(OPEN, demand=demand, closed_weight=closed_weight), TERMS, LONE)


def days(found: Forecast, minutes: int) -> Regret:
    regret = note_regret(NO_REGRET, found, elapsed_seconds=60.0)
    for _ in range(minutes):
        regret = note_regret(regret, found, elapsed_seconds=60.0)
    return regret


def absence_of(found: Forecast) -> float:
    """Request-minutes by which the next hour is dearer with a step to batch in it."""
    costs = found.costs([0, 1])
    return costs[1] - costs[0]


def choice_of(regret: Regret, found=None, *, price_to_batch: float | None = None) -> Choice:
    found = found or lone()
    memory = Memory(regret=regret, price_to_batch=price_to_batch)
    return choose_with_regret(DEFAULT_SETTINGS, memory, found, found.costs([0, 1]), STAY)


def test_regret_is_what_the_other_mode_would_have_saved():
    found = lone()
    assert gain(found, 1) == pytest.approx(60 / 100 * 2 - 60 / 110 * 2)
    assert days(found, 30).to_batch == pytest.approx(30 * gain(found, 1), rel=0.02)
    assert days(found, 30).to_mtp == 0.0, "there is no step that way"


def test_a_lone_replica_moves_once_its_regret_pays_for_its_absence():
    assert absence_of(lone()) > 0, "the next hour does not pay"
    assert choice_of(days(lone(), 60)) == STAY
    assert choice_of(Regret(batch=0, to_batch=1.1 * absence_of(lone()))).due


def test_a_quiet_hour_is_taken():
    """The absence is cheaper, the regret is the same."""
    regret = Regret(batch=0, to_batch=0.5 * absence_of(lone()))
    assert not choice_of(regret).due
    assert choice_of(regret, lone(demand=5.0)).due


def test_it_counts_only_while_the_move_is_better_now_too():
    worse = forecast(1, 0, OPEN, TERMS, CurvePair(mtp=LONE.batch, batch=LONE.mtp))
    assert choice_of(Regret(batch=0, to_batch=1e6), worse) == STAY
    assert better_step(worse, 0.03) == 0


def test_an_absence_that_is_dearer_than_two_hours_of_staying_is_not_taken():
    slow = Terms(horizon_minutes=60.0, flip_minutes=10.0)
    assert not choice_of(Regret(batch=0, to_batch=1e6), forecast(1, 0, OPEN, slow, LONE)).due


def test_a_pause_between_two_bursts_is_no_quiet_hour():
    regret = Regret(batch=0, to_batch=0.5 * absence_of(lone()))
    pause = replace(OPEN, demand=5.0, lately=(60.0,) * 60)
    assert not choice_of(regret, forecast(1, 0, pause, TERMS, LONE)).due


def test_the_price_of_the_way_back_is_in_it():
    regret = Regret(batch=0, to_batch=1.1 * absence_of(lone()))
    assert choice_of(regret).due
    assert not choice_of(regret, price_to_batch=0.2 * absence_of(lone())).due


def test_a_change_of_the_mix_begins_anew():
    assert note_regret(Regret(batch=0, to_batch=50.0), lone(1), elapsed_seconds=60.0) == Regret(batch=1)
    assert choice_of(Regret(batch=1, to_batch=1e6)) == STAY


def test_clients_that_wait_regret_nothing():
    assert gain(lone(closed_weight=1.0), 1) == 0.0


def test_it_fades():
    regret = note_regret(Regret(batch=0, to_batch=100.0), lone(demand=0.0), elapsed_seconds=86400.0)
    assert regret.to_batch == pytest.approx(100 / 2.718281828)
