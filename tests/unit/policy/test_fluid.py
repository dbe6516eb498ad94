from itertools import pairwise

import pytest

from mtpilot.curves.curve import CurvePair
from mtpilot.policy.fluid import FluidFleet, envelope, fluid_fleet
from tests.unit.policy.builders import PAIR, curve

# mtp: 2 slots, 40 then 20 tok/s for a request. batch: 4 slots, 30 then 10.
SMALL = CurvePair(mtp=curve((1, 40), (2, 60)), batch=curve((2, 60), (4, 80)))


def fleet(replicas: int, pair: CurvePair = SMALL, *, by_latency: bool = False) -> FluidFleet:
    return fluid_fleet(pair, replicas, by_latency)


def test_requests_fill_the_replicas_by_best_marginal_rate():
    mix = fleet(2).mix(1)
    assert list(mix.requests) == [0, 1, 3, 4, 6]
    assert list(mix.rates) == [0, 40, 100, 120, 140]
    assert (mix.capacity, mix.slots) == (140, 6)


def test_replicas_of_one_mode_are_one_curve_stretched():
    mix = fleet(3).mix(0)
    assert mix.rate(3) == pytest.approx(3 * 40)
    assert mix.rate(4.5) == pytest.approx(3 * SMALL.mtp.rate(1.5))


def test_rate_and_in_flight_are_each_others_inverse():
    mix = fleet(4, PAIR).mix(2)
    for share in (0.0, 0.1, 0.5, 0.99, 1.0):
        assert mix.rate(mix.in_flight(share * mix.capacity)) == pytest.approx(share * mix.capacity)


@pytest.mark.parametrize(("demand", "requests"), [(-1.0, 0.0), (1e9, 6.0)])
def test_beyond_the_table_the_mix_is_empty_or_full(demand, requests):
    assert fleet(2).mix(1).in_flight(demand) == requests


def test_an_absent_replica_serves_nothing():
    two = fleet(2)
    assert two.mix(1, absent=1).capacity == 80, "the mtp replica is away"
    assert two.mix(1, absent=-1).capacity == 60, "the batch replica is away"
    assert fleet(1).mix(0, absent=1).capacity == 0


def test_a_mix_of_nobody_serves_nothing_and_holds_nothing():
    nobody = fleet(1).mix(0, absent=1)
    assert (nobody.rate(5), nobody.in_flight(5), nobody.in_flight(0)) == (0, 0, 0)


def test_dents_and_the_flat_end_of_a_curve_do_not_count():
    dented = curve((1, 40), (2, 50), (4, 120), (8, 120), (16, 119))
    assert envelope(dented) == ((0, 0), (1, 40), (4, 120))


def test_a_curve_whose_first_point_is_below_the_chord():
    assert envelope(curve((1, 10), (4, 120))) == ((0, 0), (4, 120))


def test_an_envelope_is_concave():
    corners = envelope(PAIR.batch)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(corners)]
    assert slopes == sorted(slopes, reverse=True)


class TestFlow:
    """60 requests a minute at 1000 tok/s: 1000 output tokens each."""

    per_token = 60 / 1000

    def test_below_the_capacity_what_runs_is_all_there_is(self):
        runs, waits, left = fleet(2).mix(1).flow(100, 0.0, 10, self.per_token)
        assert (runs, waits, left) == (30, 0, 0)

    def test_above_it_the_queue_grows(self):
        runs, waits, left = fleet(2).mix(1).flow(240, 3.0, 10, self.per_token)
        assert runs == 6 * 10
        assert left == pytest.approx(3 + 6 * 10)
        assert waits == pytest.approx((3 + left) / 2 * 10)

    def test_a_queue_that_clears_leaves_the_rest_of_the_time_without_one(self):
        mix = fleet(2).mix(1)
        runs, waits, left = mix.flow(40, 12.0, 10, self.per_token)
        assert left == 0
        assert waits == pytest.approx(12 / 2 * 2), "6 requests a minute for two minutes"
        assert runs == pytest.approx(6 * 2 + mix.in_flight(40) * 8)

    def test_two_halves_are_the_whole(self):
        mix = fleet(2).mix(1)
        first = mix.flow(40, 30.0, 3, self.per_token)
        second = mix.flow(40, first[2], 7, self.per_token)
        whole = mix.flow(40, 30.0, 10, self.per_token)
        assert (first[0] + second[0], first[1] + second[1], second[2]) == pytest.approx(whole)


class TestLatency:
    def test_a_request_counts_by_its_time_per_token(self):
        mix = fleet(1, by_latency=True).mix(0)
        assert mix.burden_of(1) == pytest.approx(1), "alone in mtp: the fastest there is"
        assert mix.burden_of(2) == pytest.approx(2 * (2 / 60) * 40)

    def test_the_slower_mode_in_use_gives_the_time_between_tokens(self):
        mix = fleet(2).mix(1)
        assert mix.token_seconds_of(1) == pytest.approx(1 / 40)
        assert mix.token_seconds_of(3) == pytest.approx(1 / 30)
        assert mix.token_seconds_of(6) == pytest.approx(4 / 80)

    def test_without_it_the_burden_is_the_number(self):
        mix = fleet(2).mix(1)
        assert mix.burden == mix.requests


def test_more_requests_never_serve_less():
    for batch in range(5):
        rates = fleet(4, PAIR).mix(batch).rates
        assert all(low < high for low, high in pairwise(rates))


def test_requests_per_rate_is_that_of_the_mix_that_needs_most():
    assert fleet(2).requests_per_rate == pytest.approx(4 / 80)


def test_equal_curves_share_one_fleet():
    assert fluid_fleet(SMALL, 3) is fluid_fleet(CurvePair(mtp=SMALL.mtp, batch=SMALL.batch), 3)
