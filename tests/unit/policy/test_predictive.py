from dataclasses import replace

import pytest

from mtpilot.policy.fluid import fluid_fleet
from mtpilot.policy.forecast import Forecast, Load, Terms
from mtpilot.policy.loop import UNDECIDED, LoopMemory, compare
from mtpilot.policy.predictive import DEFAULT_SETTINGS, Choice, Memory, choose, learn_prices, pay_off, priced, take
from mtpilot.policy.smoothing import weight
from mtpilot.policy.spell import Ahead
from tests.unit.policy.builders import PAIR

TERMS = Terms(horizon_minutes=60.0, flip_minutes=4.0)


def sampled(memory: Memory, seconds: float | None, *, demand: float = 0.0, queued: float = 0.0, in_system: float = 0.0) -> Memory:
    return take(DEFAULT_SETTINGS, memory, demand=demand, queued=queued, in_system=in_system, elapsed_seconds=seconds, pace=1.0)


class TestTake:
    def test_the_first_sample_is_the_average(self):
        found = sampled(Memory(), None, demand=100.0, in_system=7.0)
        assert (found.demand, found.in_system, found.loop.closed_weight) == (100.0, 7.0, 0.5)

    def test_a_minute_moves_demand_by_a_fifth_and_the_number_in_system_by_half(self):
        found = sampled(Memory(demand=100.0, in_system=10.0), 60.0, demand=200.0, in_system=20.0)
        assert found.demand == pytest.approx(120, abs=0.1)
        assert found.in_system == pytest.approx(15, abs=0.05)

    def test_six_looks_of_ten_seconds_are_one_of_a_minute(self):
        often = Memory(demand=100.0, in_system=10.0, loop=LoopMemory(compared=20.0))
        for _ in range(6):
            often = sampled(often, 10.0, demand=200.0, in_system=20.0, queued=5.0)
        once = sampled(Memory(demand=100.0, in_system=10.0, loop=LoopMemory(compared=20.0)), 60.0, demand=200.0, in_system=20.0, queued=5.0)
        assert often.demand == pytest.approx(once.demand)
        assert often.in_system == pytest.approx(once.in_system)
        assert often.loop.closed_weight == pytest.approx(once.loop.closed_weight)

    def test_after_an_absence_a_sample_is_no_better_than_another(self):
        found = sampled(Memory(demand=100.0, in_system=10.0), 600.0, demand=200.0)
        assert found.demand == sampled(Memory(demand=100.0, in_system=10.0), 120.0, demand=200.0).demand

    def test_after_a_long_one_the_old_average_is_forgotten(self):
        assert sampled(Memory(demand=100.0, in_system=10.0), 3600.0, demand=200.0).demand == 200.0

    def test_prices_outlast_an_absence(self):
        assert sampled(Memory(price_to_batch=5.0, price_to_mtp=6.0), 1e6).price_to_batch == 5.0


class TestLoop:
    def seen(self, before: LoopMemory, in_system: float, queued: float = 50.0, seconds: float = 60.0) -> float:
        return compare(before, in_system, queued, elapsed_seconds=seconds, time_constant_seconds=1170.0).closed_weight

    def test_a_number_that_stays_while_requests_wait_is_a_closed_loop(self):
        assert self.seen(LoopMemory(compared=128.0), 128.0) == pytest.approx(0.525, abs=0.001)

    @pytest.mark.parametrize("in_system", [100.0, 150.0])
    def test_one_that_moves_is_an_open_one(self, in_system):
        assert self.seen(LoopMemory(compared=128.0), in_system) == pytest.approx(0.475, abs=0.001)

    def test_without_a_queue_nothing_is_learned(self):
        assert self.seen(LoopMemory(compared=10.0), 10.0, queued=0.0) == 0.5

    def test_the_first_look_has_nothing_to_compare_with(self):
        assert self.seen(UNDECIDED, 128.0) == 0.5

    def test_looks_within_the_minute_are_compared_with_the_same_one(self):
        memory = LoopMemory(compared=100.0)
        for in_system in (101.0, 102.0, 103.0):
            memory = compare(memory, in_system, 50.0, elapsed_seconds=10.0, time_constant_seconds=1170.0)
        assert (memory.compared, memory.since_seconds, memory.closed_weight) == (100.0, 30.0, 0.5)


class TestChoose:
    def test_the_cheaper_mix_is_due(self):
        found = choose(DEFAULT_SETTINGS, Memory(), 1, {0: 90.0, 1: 100.0, 2: 110.0})
        assert (found.best, found.price, found.due) == (0, 0.0, True)

    def test_not_within_the_margin(self):
        assert not choose(DEFAULT_SETTINGS, Memory(), 1, {0: 97.5, 1: 100.0}).due

    def test_the_way_back_is_in_the_price_for_every_replica(self):
        memory = Memory(price_to_mtp=4.0, price_to_batch=100.0)
        one = choose(DEFAULT_SETTINGS, memory, 2, {1: 90.0, 2: 100.0})
        two = choose(DEFAULT_SETTINGS, memory, 2, {0: 90.0, 2: 100.0})
        assert (one.price, one.due) == (4.0, True)
        assert (two.price, two.due) == (8.0, False)

    def test_an_idle_fleet_stays(self):
        assert choose(DEFAULT_SETTINGS, Memory(), 1, {0: 0.0, 1: 0.0, 2: 0.0}).best == 1

    def test_a_mix_that_misses_a_target_is_left_whatever_it_costs(self):
        found = choose(DEFAULT_SETTINGS, Memory(price_to_batch=1e9), 0, {0: 10.0, 1: 50.0, 2: 60.0}, frozenset({0}))
        assert (found.best, found.due) == (1, True)

    def test_and_chosen_by_nobody(self):
        assert choose(DEFAULT_SETTINGS, Memory(), 1, {0: 10.0, 1: 50.0}, frozenset({0})).best == 1


class TestPrices:
    load = Load(demand=6000.0, queued=0.0, in_system=88.0, closed_weight=0.0, output_tokens=1000.0)

    def learned(self, memory: Memory, seconds: float | None, load: Load | None = None, batch: int = 4) -> Memory:
        forecast = Forecast(fluid_fleet(PAIR, 4), batch, load or self.load, TERMS)
        costs = forecast.costs([batch - 1, batch, batch + 1] if batch < 4 else [batch - 1, batch])
        return learn_prices(DEFAULT_SETTINGS, memory, forecast, costs, elapsed_seconds=seconds, pace=1.0)

    def test_the_first_price_is_taken_as_it_is(self):
        """All in batch by day: a step to mtp would have to come back at this load."""
        found = self.learned(Memory(), 60.0, replace(self.load, demand=9300.0))
        forecast = Forecast(fluid_fleet(PAIR, 4), 4, replace(self.load, demand=9300.0), TERMS)
        assert found.price_to_mtp == pytest.approx(forecast.absence(-1))
        assert found.price_to_batch is None, "there is no step to batch"

    def test_later_ones_move_it_slowly(self):
        found = self.learned(Memory(price_to_mtp=0.0), 60.0, replace(self.load, demand=9300.0)).price_to_mtp
        forecast = Forecast(fluid_fleet(PAIR, 4), 4, replace(self.load, demand=9300.0), TERMS)
        assert found == pytest.approx(forecast.absence(-1) * weight(60.0, DEFAULT_SETTINGS.price_time_constant_seconds))

    def test_where_the_step_would_pay_its_way_back_is_not_asked(self):
        found = self.learned(Memory(price_to_mtp=3.0), 60.0, replace(self.load, demand=1000.0, in_system=8.0))
        assert found.price_to_mtp == 3.0

    def test_the_price_at_a_peak_is_not_that_of_a_way_back_that_is_just_taken(self):
        peak = replace(self.load, demand=10_500.0)
        assert self.learned(Memory(price_to_mtp=3.0), 60.0, peak).price_to_mtp == 3.0

    def test_a_closed_loop_teaches_no_price_of_arrivals(self):
        clients = replace(self.load, demand=9300.0, closed_weight=1.0)
        assert self.learned(Memory(price_to_mtp=3.0), 60.0, clients).price_to_mtp == 3.0

    def test_where_clients_wait_the_way_back_costs_an_absence_at_the_usual_load(self):
        terms = replace(TERMS, ahead=Ahead(minutes=60.0, mtp_rate=4000.0, batch_rate=6000.0))
        forecast = Forecast(fluid_fleet(PAIR, 4), 2, replace(self.load, closed_weight=1.0), terms)
        forecast.costs([1, 2, 3])
        found = priced(Memory(price_to_mtp=1e6, price_to_batch=1e6), forecast)
        lost = 4000.0 / 4 * TERMS.flip_minutes * fluid_fleet(PAIR, 4).requests_per_rate
        assert found.price_to_mtp == pytest.approx(lost)
        assert found.price_to_batch == 0.0, "batch does better over the changes: nobody will come back"

    def test_a_spare_replica_makes_the_way_back_free_for_clients_that_wait(self):
        terms = replace(TERMS, spare=True, ahead=Ahead(minutes=60.0, mtp_rate=4000.0, batch_rate=6000.0))
        forecast = Forecast(fluid_fleet(PAIR, 4), 2, replace(self.load, closed_weight=1.0), terms)
        assert priced(Memory(price_to_mtp=9.0), forecast).price_to_mtp == 0.0

    def test_an_absence_of_the_operator_does_not_make_one_look_weigh_more_than_some_minutes(self):
        dear = replace(self.load, demand=9300.0)
        assert self.learned(Memory(price_to_mtp=0.0), 1e6, dear) == self.learned(Memory(price_to_mtp=0.0), 360.0, dear)


class TestPayOff:
    """A night is longer than the hour that is looked ahead: what staying costs meanwhile pays for the way back."""

    def paid(self, costs: dict[int, float], best: int, *, due: bool = False, seconds: float | None = 60.0) -> Memory:
        choice = Choice(best=best, price=0.0, due=due)
        memory = Memory(price_to_mtp=100.0, price_to_batch=100.0)
        forecast = Forecast(fluid_fleet(PAIR, 4), 2, TestPrices.load, TERMS)
        return pay_off(DEFAULT_SETTINGS, memory, forecast, costs, choice, elapsed_seconds=seconds)

    def test_half_of_a_minutes_loss_is_paid_off_in_a_minute(self):
        found = self.paid({1: 540.0, 2: 600.0}, 1)
        assert found.price_to_mtp == pytest.approx(100 - 60 / 60 / 2)
        assert found.price_to_batch == 100

    def test_of_a_longer_way_each_flip_is_paid_its_part(self):
        assert self.paid({0: 540.0, 2: 600.0}, 0).price_to_mtp == pytest.approx(100 - 60 / 60 / 2 / 2)

    @pytest.mark.parametrize(("costs", "best"), [({1: 610.0, 2: 600.0}, 2), ({1: 590.0, 2: 600.0}, 1)])
    def test_where_staying_is_as_good_nothing_is_paid(self, costs, best):
        assert self.paid(costs, best).price_to_mtp == 100

    def test_a_move_that_is_due_is_paid_for(self):
        assert self.paid({1: 540.0, 2: 600.0}, 1, due=True).price_to_mtp == 100

    def test_a_price_never_falls_below_nothing(self):
        costs = {2: 600_000.0, 3: 0.0}
        assert self.paid(costs, 3).price_to_batch == 0

    def test_an_absence_pays_no_more_than_two_minutes(self):
        assert self.paid({1: 540.0, 2: 600.0}, 1, seconds=1e6) == self.paid({1: 540.0, 2: 600.0}, 1, seconds=120.0)
