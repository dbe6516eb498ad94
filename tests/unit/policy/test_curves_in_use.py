from dataclasses import replace
from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.policy.curves_in_use import accept_length, effective_slots, fleet_in_use
from mtpilot.policy.memory import Remembered, recall, record
from mtpilot.policy.predictive import Memory
from mtpilot.policy.refine import Level, Refinement
from tests.unit.policy.builders import PAIR, demand, sample, spec


def remembered(**changes: Any) -> Remembered:
    return replace(Remembered(rule=Memory(), refinement=Refinement()), **changes)


def capacity(mode: Mode, known: Remembered) -> float:
    fleet = fleet_in_use(spec(replicas=1), PAIR, known, 1, by_latency=False)
    return fleet.mix(0 if mode is Mode.MTP else 1).capacity


class TestAcceptLength:
    def seen(self, before: float | None, live: float | None, *, running: float = 10.0, seconds: float | None = 60.0) -> float | None:
        look = demand(1000.0, running=running, accept_length=live)
        return accept_length(before, look, PAIR, elapsed_seconds=seconds, smoothing_seconds=269.0)

    def test_the_first_value_counts_and_later_ones_are_smoothed(self):
        assert self.seen(None, 1.6, seconds=None) == 1.6
        assert self.seen(2.0, 1.5) == pytest.approx(1.9, abs=0.001)

    @pytest.mark.parametrize("running", [0.0, 1.0, 2.0])
    def test_of_idle_mtp_replicas_it_is_chance(self, running):
        assert self.seen(None, 1.2, running=running) is None
        assert self.seen(1.9, 1.2, running=running) == pytest.approx(1.9, abs=0.001)

    @pytest.mark.parametrize("live", [None, 0.0, 0.5])
    def test_what_is_no_accept_length_is_not_believed(self, live):
        assert self.seen(None, live) is None

    def test_unseen_it_sinks_back_to_the_profiles_in_hours(self):
        value: float | None = 1.2
        for _ in range(24 * 60):
            value = self.seen(value, None)
        assert value == pytest.approx(2.0, abs=0.02)

    def test_a_profile_without_one_is_not_corrected(self):
        unknown = replace(PAIR, accept_length=None)
        assert accept_length(1.5, demand(1000.0, accept_length=1.2), unknown, elapsed_seconds=60.0, smoothing_seconds=269.0) is None


def test_the_mtp_curve_follows_live_acceptance():
    assert capacity(Mode.MTP, remembered(accept_length=1.2)) == pytest.approx(0.6 * PAIR.mtp.rate(24))
    assert capacity(Mode.BATCH, remembered(accept_length=1.2)) == PAIR.batch.rate(68)


def test_both_curves_follow_their_levels():
    levels = remembered(refinement=Refinement(mtp=Level(value=0.9, known=1.0), batch=Level(value=1.1, known=1.0)))
    assert capacity(Mode.MTP, levels) == pytest.approx(0.9 * PAIR.mtp.rate(24))
    assert capacity(Mode.BATCH, levels) == pytest.approx(1.1 * PAIR.batch.rate(68))


def test_real_slots_cut_a_curve_and_never_lengthen_it():
    assert capacity(Mode.MTP, remembered(mtp_slots=12)) == pytest.approx(PAIR.mtp.rate(12))
    assert capacity(Mode.MTP, remembered(mtp_slots=48)) == PAIR.mtp.rate(24)


def test_a_request_that_was_lowered_since_counts():
    config = spec(replicas=1)
    modes = config.modes.model_copy(update={"mtp": config.modes.mtp.model_copy(update={"max_running_requests": 8})})
    fleet = fleet_in_use(config.model_copy(update={"modes": modes}), PAIR, remembered(mtp_slots=20), 1, by_latency=False)
    assert fleet.mix(0).capacity == pytest.approx(PAIR.mtp.rate(8))


def test_slots_never_seen_are_the_specs():
    config = spec(replicas=1)
    modes = config.modes.model_copy(update={"mtp": config.modes.mtp.model_copy(update={"max_running_requests": 8})})
    fleet = fleet_in_use(config.model_copy(update={"modes": modes}), PAIR, remembered(), 1, by_latency=False)
    assert fleet.mix(0).capacity == pytest.approx(PAIR.mtp.rate(8))


def test_the_replica_with_fewest_slots_counts_and_is_remembered():
    samples = [sample(0, Mode.MTP, slots=24), sample(1, Mode.MTP, slots=20), sample(2, Mode.BATCH, slots=68)]
    assert effective_slots(Mode.MTP, samples, None, requested=48) == 20
    assert effective_slots(Mode.MTP, samples[2:], 20, requested=48) == 20
    assert effective_slots(Mode.MTP, [], None, requested=48) is None


def test_slots_that_only_repeat_the_request_are_not_kept() -> None:
    """They would outlive it: a request that is raised while no such replica runs would stay without effect."""
    assert effective_slots(Mode.MTP, [sample(slots=48)], 20, requested=48) is None
    silent = sample(slots=48, slots_reported=False)
    assert effective_slots(Mode.MTP, [silent], 20, requested=48) == 20
    assert effective_slots(Mode.MTP, [silent, sample(1, slots=24)], 20, requested=48) == 24


def test_a_change_below_a_percent_makes_no_new_tables():
    first = fleet_in_use(spec(), PAIR, remembered(accept_length=2.0), 4, by_latency=False)
    assert fleet_in_use(spec(), PAIR, remembered(accept_length=2.004), 4, by_latency=False) is first


class TestMemory:
    full = PolicyState(
        smoothed_tokens_per_second="1234.500",
        in_system="12.500000",
        closed_weight="0.750000",
        compared_in_system="12.000000",
        compared_seconds="30.000000",
        price_to_batch="410.250000",
        price_to_mtp="12.000000",
        spell_mode=Mode.BATCH,
        spell_minutes="12.000000",
        usual_spell_minutes="95.500000",
        spell_spread_minutes="20.000000",
        usual_mtp_tokens_per_second="1500.000000",
        usual_batch_tokens_per_second="1900.000000",
        usual_seen_minutes="240.000000",
        recent_tokens_per_second="980.0 1410.5",
        minute_tokens="12000.000000",
        minute_seconds="10.000000",
        regret_batch=0,
        regret_to_batch="41.500000",
        regret_to_mtp="-3.250000",
        accept_length="1.820000",
        mtp_slots=24,
        batch_slots=68,
        mtp_level="0.950000",
        mtp_level_weight="0.800000",
        batch_level="1.020000",
        batch_level_weight="0.400000",
        drift_seconds=600,
    )

    def test_what_is_recorded_is_recalled(self):
        assert PolicyState().model_copy(update=record(recall(self.full))) == self.full

    def test_an_empty_state_is_nothing_seen(self):
        found = recall(PolicyState())
        assert (found.rule.demand, found.rule.price_to_batch, found.rule.loop.closed_weight) == (None, None, 0.5)
        assert found.refinement == Refinement()

    @pytest.mark.parametrize("text", ["NaN", "inf", "-3", "", "soon"])
    def test_what_is_no_number_was_never_seen(self, text):
        names = [name for name, value in self.full.model_dump().items() if isinstance(value, str)]
        assert recall(PolicyState.model_construct(**dict.fromkeys(names, text))) == recall(PolicyState())

    def test_numbers_out_of_range_are_brought_back(self):
        found = recall(PolicyState(closed_weight="7", mtp_level="0", mtp_level_weight="9", batch_level="2", batch_level_weight="9"))
        assert found.rule.loop.closed_weight == 1.0
        assert found.refinement.mtp == Level()
        assert found.refinement.batch == Level(value=2.0, known=1.0)
