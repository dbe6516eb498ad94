import math
from dataclasses import replace
from statistics import mean, pstdev

import pytest

from mtpilot.curves.curve import ThroughputCurve
from mtpilot.policy.draws import ENOUGH, THIN_SHARE, Odds, levels, odds, thinned
from mtpilot.policy.fluid import fluid_fleet
from mtpilot.policy.forecast import Forecast, Load, Terms
from tests.unit.policy.builders import PAIR

TERMS = Terms(horizon_minutes=60.0, flip_minutes=4.0)


def better(found: Forecast, target: int, price: float, *, exact: bool = True) -> float:
    return odds(found, target, price, exact=exact).better


def forecast(demand: float, error: float, replicas: int = 1) -> Forecast:
    pair = replace(PAIR, mtp_error=error, batch_error=error)
    in_flight = fluid_fleet(pair, replicas).mix(0).in_flight(demand)
    return Forecast(
        fluid_fleet(pair, replicas), 0, Load(demand=demand, queued=0.0, in_system=in_flight, closed_weight=0.0, output_tokens=1000.0), TERMS
    )


def test_without_an_error_there_is_one_draw():
    assert levels(0.0, 0.0) == ((1.0, 1.0),)
    assert better(forecast(2400.0, 0.0), 1, 0.0) == 1.0
    assert better(forecast(1000.0, 0.0), 1, 0.0) == 0.0


@pytest.mark.parametrize(("mtp", "batch"), [(0.03, 0.03), (0.1, 0.02), (0.0, 0.05), (0.05, 0.0)])
def test_draws_have_the_errors_that_were_asked_for(mtp, batch):
    draws = levels(mtp, batch)
    batch_levels = [math.log(shared) for _, shared in draws]
    mtp_levels = [math.log(ratio * shared) for ratio, shared in draws]
    assert mean(batch_levels) == pytest.approx(0, abs=1e-9)
    assert mean(mtp_levels) == pytest.approx(0, abs=1e-9)
    assert pstdev(batch_levels) == pytest.approx(batch, rel=0.25, abs=1e-9)
    assert pstdev(mtp_levels) == pytest.approx(mtp, rel=0.25, abs=1e-9)


def test_a_level_that_both_curves_share_is_another_demand():
    """What `odds` uses instead of new tables."""
    pair = replace(PAIR, mtp=PAIR.mtp.scaled(1.1), batch=PAIR.batch.scaled(1.1))
    load = Load(demand=1800.0, queued=12.0, in_system=30.0, closed_weight=0.4, output_tokens=1000.0)
    scaled = replace(load, demand=load.demand / 1.1, output_tokens=load.output_tokens / 1.1)
    direct = Forecast(fluid_fleet(pair, 2), 1, load, TERMS).costs([0, 1, 2])
    assert Forecast(fluid_fleet(PAIR, 2), 1, scaled, TERMS).costs([0, 1, 2]) == pytest.approx(direct)


def test_near_the_crossover_uncertain_curves_disagree():
    sure, unsure = (better(forecast(1650.0, error), 1, 0.0) for error in (0.001, 0.1))
    assert sure in (0.0, 1.0)
    assert 0.05 < unsure < 0.95


def test_far_from_it_they_agree():
    assert better(forecast(2600.0, 0.1), 1, 0.0) > 0.9
    assert better(forecast(600.0, 0.1), 1, 0.0) < 0.1


def test_equal_questions_have_equal_answers():
    assert better(forecast(1650.0, 0.05), 1, 3.0) == better(forecast(1650.0, 0.05), 1, 3.0)


@pytest.mark.parametrize("demand", [600.0, 1650.0, 1750.0, 2600.0])
def test_counting_may_end_once_it_is_clear(demand):
    exact, quick = (better(forecast(demand, 0.1), 1, 0.0, exact=exact) for exact in (True, False))
    assert (quick > ENOUGH) == (exact > ENOUGH)
    assert quick >= exact


def test_a_fleet_moves_on_good_odds_where_much_is_gained_and_a_lone_replica_does_not():
    assert Odds(better=0.75, gain=0.3, alone=False).enough
    assert not Odds(better=0.75, gain=0.3, alone=True).enough
    assert not Odds(better=0.75, gain=0.05, alone=False).enough
    assert not Odds(better=0.6, gain=0.5, alone=False).enough
    assert Odds(better=0.95, gain=0.01, alone=True).enough


@pytest.mark.parametrize("demand", [600.0, 3200.0, 3300.0, 5200.0])
def test_counting_that_ends_early_decides_the_same(demand):
    exact, quick = (odds(forecast(demand, 0.1, replicas=2), 1, 0.0, exact=exact) for exact in (True, False))
    assert exact.enough == quick.enough


def test_a_thinned_curve_is_the_same_within_its_share():
    levels_ = tuple(float(level) for level in range(1, 65))
    curve = ThroughputCurve(concurrency=levels_, tokens_per_second=tuple(108.0 * level**0.77 for level in levels_))
    thin = thinned(curve)
    assert len(thin.concurrency) < 20
    assert all(thin.rate(level) == pytest.approx(curve.rate(level), rel=1.01 * THIN_SHARE) for level in levels_)
    assert thin.slots == curve.slots
    one = ThroughputCurve(concurrency=(4.0,), tokens_per_second=(300.0,))
    assert thinned(one) == one
