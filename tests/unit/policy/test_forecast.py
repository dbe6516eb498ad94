from dataclasses import replace

import pytest

from mtpilot.curves.curve import CurvePair
from mtpilot.policy.fluid import fluid_fleet
from mtpilot.policy.forecast import Forecast, Load, Terms
from tests.unit.policy.builders import PAIR, curve

# One request is 60 tokens, so a tok/s is a request a minute.
SMALL = CurvePair(mtp=curve((2, 100)), batch=curve((4, 160)))
OPEN = Load(demand=60.0, queued=0.0, in_system=1.2, closed_weight=0.0, output_tokens=60.0)
TERMS = Terms(horizon_minutes=60.0, flip_minutes=5.0)


def forecast(
    replicas: int = 2, batch: int = 0, load: Load = OPEN, terms: Terms = TERMS, pair: CurvePair = SMALL, *, by_latency: bool = False
) -> Forecast:
    return Forecast(fluid_fleet(pair, replicas, by_latency), batch, load, terms)


class TestOpen:
    def test_staying_costs_what_runs(self):
        assert forecast().costs([0]) == {0: pytest.approx(60 * 60 / 100 * 2)}

    def test_a_move_costs_the_way_and_the_rest_of_the_hour(self):
        cost = forecast(load=replace(OPEN, demand=50.0)).costs([1])[1]
        assert cost == pytest.approx(60 * 1), "one mtp replica alone serves 50 with one request, and later it still does"

    def test_the_backlog_of_an_absence_is_counted_until_it_is_cleared(self):
        load = replace(OPEN, demand=120.0)
        way = 2 * 5 + 100 / 2 * 5  # one replica serves 100, the queue grows by 20 a minute
        mix = fluid_fleet(SMALL, 2).mix(1)
        clearing = 100 / (mix.capacity - 120)
        after = (mix.slots + 100 / 2) * clearing + mix.in_flight(120) * (55 - clearing)
        assert forecast(load=load).costs([1])[1] == pytest.approx(way + after)

    def test_what_is_left_at_the_end_is_cleared_by_the_mix_that_is_there(self):
        load = replace(OPEN, demand=150.0, queued=30.0)
        alone = Terms(horizon_minutes=1.0, flip_minutes=5.0)
        here = forecast(1, 1, load, alone).costs([1])[1]
        assert here == pytest.approx(4 + 25 + 20 * (20 / 10) / 2), "4 run, 30 to 20 wait, then 20 are cleared at 10 a minute"

    def test_a_full_fleet_has_a_finite_price(self):
        assert forecast(1, 0, replace(OPEN, demand=500.0)).costs([0])[0] < float("inf")

    def test_a_lone_replica_serves_nobody_on_its_way(self):
        waits = 60 * 5 / 2 * 5
        assert forecast(1).costs([1])[1] > waits

    def test_a_way_that_is_longer_than_the_horizon_stops_there(self):
        short = Terms(horizon_minutes=8.0, flip_minutes=5.0)
        costs = forecast(4, 0, replace(OPEN, demand=100.0), short).costs([2, 4])
        assert costs[2] == pytest.approx(costs[4])

    def test_one_way_serves_every_target_on_it(self):
        together = forecast(4, 1, replace(OPEN, demand=200.0)).costs([0, 1, 2, 4])
        assert together == {k: forecast(4, 1, replace(OPEN, demand=200.0)).costs([k])[k] for k in (0, 1, 2, 4)}


class TestClosed:
    load = Load(demand=100.0, queued=0.0, in_system=8.0, closed_weight=1.0, output_tokens=60.0)

    def test_the_best_mix_loses_nothing(self):
        assert forecast(2, 2, self.load).costs([2])[2] == pytest.approx(0)

    def test_staying_loses_what_the_best_mix_would_serve_more(self):
        per_token = 4 / 160
        assert forecast(2, 0, self.load).costs([0, 2])[0] == pytest.approx(60 * per_token * (320 - 200)), "as far as it is in reach"

    def test_an_absence_loses_the_work_of_one_replica(self):
        per_token = 4 / 160
        assert forecast(2, 2, self.load).absence(-1) == pytest.approx(5 * per_token * 160)

    def test_a_backlog_does_not_matter(self):
        assert forecast(2, 0, replace(self.load, queued=500.0)).costs([0]) == forecast(2, 0, self.load).costs([0])

    def test_a_token_is_worth_the_same_whoever_waits_for_it(self):
        """An absence where few clients are costs less than one where many are, by the work alone."""
        few = forecast(2, 0, replace(self.load, in_system=2.0)).absence(1)
        many = forecast(2, 0, replace(self.load, in_system=200.0)).absence(1)
        assert few == pytest.approx(0), "one mtp replica serves two clients as fast as two do"
        assert many == pytest.approx(5 * 4 / 160 * 100)


class TestAbsence:
    def test_it_is_free_where_the_others_do_as_well(self):
        assert forecast(4, 0, replace(OPEN, demand=10.0)).absence(1) == 0

    def test_it_explodes_near_the_capacity(self):
        prices = [forecast(4, 0, replace(OPEN, demand=demand)).absence(1) for demand in (200.0, 320.0, 390.0)]
        assert prices[0] < prices[1] < prices[2]
        assert prices[2] > 100

    def test_with_a_spare_replica_nobody_is_away(self):
        load = replace(OPEN, demand=390.0)
        assert forecast(4, 0, load, replace(TERMS, spare=True)).absence(1) == 0
        assert forecast(4, 0, load, replace(TERMS, spare=True)).costs([1])[1] < forecast(4, 0, load).costs([1])[1]

    def test_queued_after_flip(self):
        assert forecast(2, 0, replace(OPEN, demand=120.0)).queued_after_flip(1) == pytest.approx(100)
        assert forecast(2, 0, OPEN).queued_after_flip(1) == 0


def test_the_two_readings_are_weighed():
    half = replace(OPEN, demand=150.0, queued=40.0, in_system=8.0, closed_weight=0.5)
    cost = {w: forecast(2, 0, replace(half, closed_weight=w)).costs([1])[1] for w in (0.0, 0.5, 1.0)}
    assert cost[0.5] == pytest.approx((cost[0.0] + cost[1.0]) / 2)


def test_what_waits_can_count_more_than_what_runs():
    load = replace(OPEN, demand=250.0)
    once, twice = (forecast(2, 0, load, replace(TERMS, waiting=weight)).costs([0])[0] for weight in (1.0, 2.0))
    assert once < twice < 2 * once


def test_latency_prefers_the_mode_that_is_faster_for_each_request():
    """At the same demand both modes hold as many requests or fewer in mtp; their slowness counts on top."""
    load = Load(demand=1500.0, queued=0.0, in_system=20.0, closed_weight=0.0, output_tokens=1000.0)
    plain = forecast(1, 0, load, pair=PAIR).costs([0])[0] / forecast(1, 1, load, pair=PAIR).costs([1])[1]
    latency = (
        forecast(1, 0, load, pair=PAIR, by_latency=True).costs([0])[0] / forecast(1, 1, load, pair=PAIR, by_latency=True).costs([1])[1]
    )
    assert latency < plain < 1


@pytest.mark.parametrize("closed_weight", [0.0, 0.3, 1.0])
def test_scaling_load_and_curves_together_changes_nothing(closed_weight):
    load = Load(demand=5000.0, queued=30.0, in_system=80.0, closed_weight=closed_weight, output_tokens=900.0)
    scaled = replace(load, demand=7 * load.demand, output_tokens=7 * load.output_tokens)
    pair = CurvePair(mtp=PAIR.mtp.scaled(7), batch=PAIR.batch.scaled(7))
    assert forecast(4, 1, load, pair=PAIR).costs(range(5)) == pytest.approx(forecast(4, 1, scaled, pair=pair).costs(range(5)))
