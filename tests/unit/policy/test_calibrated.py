"""The rule with a profile, asked as the operator asks it: look after look, each with the state of the one before."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import Loop, PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.decision import Decision, Mix
from mtpilot.model.reasons import Reason
from mtpilot.policy.decide import decide
from mtpilot.policy.predictive import DEFAULT_SETTINGS
from tests.unit.policy.builders import NOW, PAIR, calibration, demand, fleet, spec
from tests.unit.policy.watch import ALL_BATCH, ALL_MTP, HALF, MTP_CAPACITY, Watch


class TestMoves:
    def test_low_demand_moves_towards_mtp(self):
        found = Watch(ALL_BATCH).watch(2000.0)
        assert (found.move_to, found.reason, found.recommended) == (Mode.MTP, Reason.CHEAPER_AFTER_MOVE, ALL_MTP)

    def test_demand_beyond_mtp_moves_towards_batch(self):
        found = Watch(ALL_MTP).watch(1.1 * MTP_CAPACITY, queued=lambda i: 10.0 * i)
        assert (found.move_to, found.reason) == (Mode.BATCH, Reason.CHEAPER_AFTER_MOVE)

    @pytest.mark.parametrize(("mix", "share"), [(ALL_MTP, 0.3), (ALL_MTP, 0.9), (ALL_BATCH, 1.5)])
    def test_the_right_mix_stays(self, mix, share):
        found = Watch(mix).watch(share * MTP_CAPACITY)
        assert (found.move_to, found.reason, found.recommended) == (None, Reason.STAYING_IS_CHEAPER, mix)

    def test_an_idle_fleet_stays(self):
        assert Watch(HALF).watch(0.0).reason == Reason.STAYING_IS_CHEAPER

    def test_a_signal_must_last(self):
        watch = Watch(ALL_BATCH)
        first = watch.look(2000.0)
        assert (first.move_to, first.reason) == (None, Reason.STABILIZING)
        assert first.recommended == ALL_BATCH
        assert "at 12:03:00Z if it lasts: one replica to mtp" in first.would_change
        assert watch.watch(2000.0, seconds=170).move_to is None
        assert watch.look(2000.0).move_to is Mode.MTP

    def test_a_signal_that_breaks_starts_anew(self):
        watch = Watch(ALL_BATCH)
        watch.watch(2000.0, seconds=120)
        watch.look(2000.0, queued=8000.0)
        assert watch.watch(2000.0, seconds=120).move_to is None

    def test_while_a_slot_is_away_nothing_else_moves_and_the_signal_starts_anew(self):
        watch = Watch(ALL_BATCH)
        found = watch.watch(2000.0, moving="chat-r3")
        assert (found.move_to, found.reason) == (None, Reason.MOVE_IN_FLIGHT)
        assert watch.state.pressure is None
        assert watch.look(2000.0).reason == Reason.STABILIZING

    def test_a_queue_that_takes_long_to_clear_waits_for_nothing(self):
        rate = 1.3 * MTP_CAPACITY
        patient = replace(DEFAULT_SETTINGS, hard_wait_share=None)
        assert Watch(ALL_MTP, settings=patient).look(rate, queued=1000.0).reason == Reason.STABILIZING
        assert Watch(ALL_MTP).look(rate, queued=1000.0).move_to is Mode.BATCH

    def test_the_state_is_the_same_with_and_without_words(self):
        told, silent = Watch(ALL_BATCH), Watch(ALL_BATCH)
        for _ in range(20):
            loud, quiet = told.look(2000.0), silent.look(2000.0, explain=False)
            assert (loud.move_to, loud.reason, loud.recommended, loud.state) == (
                quiet.move_to,
                quiet.reason,
                quiet.recommended,
                quiet.state,
            )
            assert quiet.outlook is None


class TestPriceOfReturn:
    """Price 400 request-minutes: much dearer than anything that mtp saves at night."""

    def night(self, price: str) -> Decision:
        return Watch(ALL_BATCH, state=PolicyState(price_to_mtp=price)).watch(2000.0)

    def test_a_way_back_that_was_cheap_lately(self):
        assert self.night("1.000000").move_to is Mode.MTP

    def test_one_that_was_dear(self):
        found = self.night("4000.000000")
        assert (found.move_to, found.reason) == (None, Reason.NOT_WORTH_THE_WAY_BACK)
        assert "for the way back" in found.message

    def test_it_is_learned_near_the_crossover_and_paid_off_by_night(self):
        watch = Watch(ALL_BATCH)
        watch.watch(9300.0)
        learned = float(watch.state.price_to_mtp or 0)
        assert learned > 500
        assert watch.watch(4000.0).reason == Reason.NOT_WORTH_THE_WAY_BACK
        watch.watch(4000.0, seconds=3600, explain=False)
        assert 0 < float(watch.state.price_to_mtp or 0) < learned - 100


class TestVerdict:
    def test_mtp_only_never_leaves_mtp_under_load(self):
        watch = Watch(ALL_MTP, verdict=Verdict.MTP_ONLY)
        found = watch.watch(1.1 * MTP_CAPACITY, queued=lambda i: 10.0 * i)
        assert (found.move_to, found.reason) == (None, Reason.PROFILE_MTP_ONLY)
        assert "3 mtp / 1 batch" in found.message or "0 mtp / 4 batch" in found.message, "what it would cost is told"

    def test_batch_only_never_leaves_batch(self):
        found = Watch(ALL_BATCH, verdict=Verdict.BATCH_ONLY).watch(2000.0)
        assert (found.move_to, found.reason) == (None, Reason.PROFILE_BATCH_ONLY)

    def test_a_fleet_in_the_wrong_mode_goes_home_when_it_is_quiet(self):
        tied = replace(PAIR, batch=PAIR.mtp)
        quiet = Watch(ALL_BATCH, verdict=Verdict.MTP_ONLY, pair=tied, profile=tied)
        found = quiet.watch(1000.0)
        assert (found.move_to, found.reason, found.recommended) == (Mode.MTP, Reason.PROFILE_MTP_ONLY, ALL_MTP)

    @pytest.mark.parametrize(("rate", "queued"), [(0.9 * MTP_CAPACITY, 0.0), (1000.0, 5.0)])
    def test_and_waits_while_it_is_not(self, rate, queued):
        tied = replace(PAIR, batch=PAIR.mtp)
        assert Watch(ALL_BATCH, verdict=Verdict.MTP_ONLY, pair=tied, profile=tied).watch(rate, queued=queued).move_to is None

    def test_a_lone_replica_goes_home_when_it_is_nearly_idle(self):
        tied = replace(PAIR, batch=PAIR.mtp)
        lone: dict[str, Any] = {"verdict": Verdict.MTP_ONLY, "pair": tied, "profile": tied}
        assert Watch(Mix(mtp=0, batch=1), **lone).watch(20.0).reason == Reason.DOWNTIME_NOT_ALLOWED
        assert Watch(Mix(mtp=0, batch=1), **lone).watch(800.0).reason == Reason.STAYING_IS_CHEAPER


class TestUncertainty:
    # At this demand the move pays by the curves, but by less than curves with such errors can tell.
    rate = 8600.0

    def test_uncertain_curves_hold(self):
        assert Watch(ALL_BATCH).watch(self.rate).move_to is Mode.MTP
        unsure = replace(PAIR, mtp_error=0.1, batch_error=0.1)
        found = Watch(ALL_BATCH, profile=unsure).watch(self.rate)
        assert (found.move_to, found.reason) == (None, Reason.CURVES_UNCERTAIN)
        assert found.outlook is not None
        assert 0.0 < (found.outlook.draws_better or 0) <= 0.9

    def test_where_they_agree_they_move(self):
        unsure = replace(PAIR, mtp_error=0.05, batch_error=0.05)
        assert Watch(ALL_BATCH, profile=unsure).watch(2000.0).move_to is Mode.MTP


class TestMissingSeries:
    def missing(self, watch: Watch, rate: float, gone: int, **changes: Any) -> Decision:
        return watch.watch(rate, missing=tuple(f"chat-r{i}-x" for i in range(gone)), **changes)

    def test_a_move_that_pays_whatever_is_not_seen_is_made(self):
        assert self.missing(Watch(ALL_BATCH), 1000.0, 1).move_to is Mode.MTP

    def test_one_that_may_not_is_held(self):
        found = self.missing(Watch(ALL_BATCH), 7000.0, 2)
        assert Watch(ALL_BATCH).watch(7000.0).move_to is Mode.MTP
        assert (found.move_to, found.reason) == (None, Reason.PARTIAL_SERIES)

    def test_staying_says_that_it_does_not_see_everything(self):
        assert self.missing(Watch(ALL_MTP), 1000.0, 1).reason == Reason.PARTIAL_SERIES

    def test_series_that_stand_still_hold(self):
        watch = Watch(ALL_BATCH)
        watch.watch(2000.0, seconds=170)
        found = watch.watch(2000.0, contradicted=("chat-r0-x",), seconds=60)
        assert (found.move_to, found.reason) == (None, Reason.STALE_SERIES)
        assert watch.state.pressure is None


class TestLiveCorrections:
    def batch_above(self, watch: Watch, **changes: Any) -> float:
        outlook = watch.watch(3000.0, **changes).outlook
        assert outlook is not None
        return outlook.batch_above_tokens_per_second or 0.0

    def test_falling_acceptance_moves_to_batch_earlier(self):
        worse = replace(PAIR, mtp=PAIR.mtp.scaled(0.6))
        usual = self.batch_above(Watch(ALL_MTP), accept_length=2.0)
        low = self.batch_above(Watch(ALL_MTP, pair=worse), accept_length=1.2)
        assert low < 0.7 * usual

    def test_the_acceptance_of_idle_replicas_counts_for_nothing(self):
        watch = Watch(ALL_MTP)
        watch.watch(100.0, accept_length=1.0)
        assert watch.state.accept_length is None

    def test_fewer_real_slots_move_to_batch_earlier(self):
        watch = Watch(ALL_MTP)
        for _ in range(20):
            seen = watch.look(3000.0)
        assert seen.outlook is not None
        fewer = Watch(ALL_MTP)
        replicas = tuple(replace(item, slots=16) for item in demand(3000.0, running=9.0).replicas)
        tight = fewer.watch(3000.0, replicas=tuple(replace(item, tokens_per_second=PAIR.mtp.rate(9.0)) for item in replicas))
        assert tight.outlook is not None
        assert (tight.outlook.batch_above_tokens_per_second or 0) < (seen.outlook.batch_above_tokens_per_second or 0)

    def test_replicas_that_do_less_than_their_curve_are_believed(self):
        slow = replace(PAIR, mtp=PAIR.mtp.scaled(0.85), batch=PAIR.batch.scaled(0.85))
        watch = Watch(ALL_MTP, pair=slow)
        found = self.batch_above(watch)
        watch.watch(3000.0, seconds=3 * 3600, explain=False)
        assert self.batch_above(watch) == pytest.approx(0.85 * found, rel=0.1)


class TestLoop:
    """Both serve the same tokens with the same replicas full: only what waits tells them apart."""

    def last(self, queued: Callable[[int], float], rate: float) -> Decision:
        watch = Watch(ALL_MTP)
        watch.watch(rate, queued=queued, seconds=3600, explain=False)
        return watch.look(rate, queued=queued(360))

    def test_clients_that_wait_for_their_answers(self):
        found = self.last(lambda i: 400.0, MTP_CAPACITY)
        assert found.outlook is not None
        assert (found.outlook.loop, found.outlook.loop_confidence > 0.9) == (Loop.CLOSED, True)
        assert found.move_to is Mode.BATCH
        assert "requests in the system" in found.would_change

    def test_a_queue_that_comes_and_goes(self):
        found = self.last(lambda i: 20.0 + 10.0 * (i // 6 % 2), MTP_CAPACITY)
        assert found.outlook is not None
        assert (found.outlook.loop, found.outlook.loop_confidence > 0.9) == (Loop.OPEN, True)
        assert found.move_to is None


class TestObjective:
    def costs(self, objective: str, rate: float) -> dict[int, float]:
        outlook = Watch(HALF, workload={"objective": objective}).watch(rate).outlook
        assert outlook is not None
        return {cost.mix.batch: cost.request_minutes for cost in (outlook.staying, *outlook.moves)}

    def test_latency_makes_batch_dearer(self):
        balanced, latency = self.costs("Balanced", 5000.0), self.costs("Latency", 5000.0)
        assert latency[4] / latency[0] > balanced[4] / balanced[0]

    def test_throughput_makes_waiting_dearer(self):
        balanced, throughput = self.costs("Balanced", 7500.0), self.costs("Throughput", 7500.0)
        assert throughput[0] / throughput[4] > balanced[0] / balanced[4]

    def test_a_mix_that_misses_a_target_is_left(self):
        rate = 6000.0
        assert Watch(ALL_MTP).watch(rate).move_to is None
        tight = {"targets": {"itl": "14ms"}}
        assert PAIR.mtp.rate(16) * 4 < rate < PAIR.mtp.rate(24) * 4
        stays = Watch(ALL_MTP, workload=tight).watch(rate)
        leaves = Watch(ALL_BATCH, workload=tight).watch(rate)
        assert stays.move_to is None
        assert (leaves.move_to, leaves.reason) == (Mode.MTP, Reason.LATENCY_TARGET_MISSED)
        assert leaves.outlook is not None
        assert not leaves.outlook.staying.feasible


class TestBoundsAndModes:
    def test_candidates_stay_within_the_minimums(self):
        found = Watch(HALF, policy={"minReplicas": {"mtp": 1, "batch": 1}}).watch(1000.0)
        assert found.outlook is not None
        assert {cost.mix.batch for cost in found.outlook.moves} == {1, 3}
        assert found.recommended == Mix(mtp=3, batch=1)

    def test_a_mix_outside_them_goes_back_first(self):
        found = Watch(ALL_BATCH, policy={"minReplicas": {"mtp": 1}}).watch(3000.0)
        assert (found.move_to, found.reason) == (Mode.MTP, Reason.BELOW_MIN_REPLICAS)

    def test_recommend_only_says_what_it_would_do(self):
        found = Watch(ALL_BATCH, policy={"mode": "RecommendOnly"}).watch(2000.0)
        assert (found.move_to, found.reason, found.recommended) == (None, Reason.RECOMMEND_ONLY, ALL_MTP)
        assert found.outlook is not None

    def test_a_pinned_mix_shows_what_it_costs(self):
        found = Watch(ALL_BATCH, policy={"mode": "Pinned", "pinned": {"mtp": 0, "batch": 4}}).watch(2000.0)
        assert (found.move_to, found.reason) == (None, Reason.PINNED_MIX)
        assert found.outlook is not None
        assert found.outlook.best == ALL_MTP
        assert found.state.in_system is not None, "what is learned while pinned is there for a later Auto"

    def test_the_guards_are_asked_but_not_those_that_stand_in_for_a_prediction(self):
        found = Watch(ALL_BATCH, policy={"maxFlipsPerHour": 0}).watch(2000.0)
        assert (found.move_to, found.reason) == (None, Reason.FLIP_BUDGET_SPENT)


class TestWords:
    def test_the_message_has_the_costs_and_the_load(self):
        found = Watch(ALL_BATCH).watch(2000.0)
        assert found.message.startswith(
            "one replica to mtp, 0 mtp / 4 batch → 1 mtp / 3 batch: next hour: staying 1.3k request-minutes, 4 mtp / 0 batch "
        )
        assert "demand 2000 tok/s (2000 tok/s now)" in found.message

    def test_the_loads_that_would_change_the_answer(self):
        found = Watch(HALF).watch(3000.0)
        assert found.outlook is not None
        assert found.outlook.mtp_below_tokens_per_second is not None
        assert found.outlook.batch_above_tokens_per_second is not None
        assert 3000.0 < found.outlook.mtp_below_tokens_per_second < found.outlook.batch_above_tokens_per_second
        assert found.would_change.startswith("to batch: demand above ")

    def test_a_way_back_that_no_load_pays_for(self):
        found = Watch(HALF, state=PolicyState(price_to_mtp="4000.000000")).watch(3000.0)
        assert "to mtp: no load pays for the way back" in found.would_change

    def test_they_are_where_the_answer_does_change(self):
        above = Watch(ALL_MTP).watch(3000.0).outlook
        assert above is not None
        limit = above.batch_above_tokens_per_second
        assert limit is not None
        assert Watch(ALL_MTP).watch(0.97 * limit, seconds=600).move_to is None
        assert Watch(ALL_MTP).watch(1.03 * limit, seconds=600).move_to is Mode.BATCH


def test_equal_inputs_give_equal_decisions():
    one, other = Watch(ALL_BATCH), Watch(ALL_BATCH)
    assert [one.look(2000.0 + 100 * i) for i in range(30)] == [other.look(2000.0 + 100 * i) for i in range(30)]


def test_the_same_sample_is_taken_once():
    watch = Watch(ALL_BATCH)
    before = watch.look(2000.0).state
    watch.looks -= 1
    assert watch.look(9000.0).state == before


@pytest.mark.parametrize("targets", [{"itl": "15ms"}, {"itl": "1ms"}, {"ttft": "2s"}, {"ttft": "1ms"}, {"itl": "20ms", "ttft": "5s"}])
@pytest.mark.parametrize("mix", [ALL_MTP, HALF, ALL_BATCH])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_meets_every_target_with_an_answer(verdict, mix, targets):
    """All that the verdict leaves may miss what another mix would meet, at the present load or at one that is only weighed."""
    away = {Verdict.MTP_ONLY: Mode.BATCH, Verdict.BATCH_ONLY: Mode.MTP}.get(verdict)
    for share in (0.05, 0.9, 1.2):
        watch = Watch(mix, verdict=verdict, workload={"targets": targets})
        assert watch.look(share * MTP_CAPACITY, queued=20.0 if share > 1 else 0.0).move_to is not away or away is None


def test_a_step_that_pays_at_every_load_is_told_as_that():
    """Batch is better everywhere: `no load pays for the way back` would be the opposite of the truth."""
    better = replace(PAIR, batch=PAIR.mtp.scaled(4.0))
    decision = Watch(
        ALL_MTP, profile=better, pair=better, verdict=Verdict.BATCH_ONLY, policy={"stabilization": {"up": "10m", "down": "10m"}}
    ).look(0.5 * MTP_CAPACITY)
    assert decision.move_to is None
    assert "to batch: any load" in (decision.would_change or "")


def test_slots_that_are_all_on_their_way_out_hold():
    decision = decide(spec(replicas=4), demand(500.0), fleet(Mix(mtp=0, batch=0), replicas=4), PolicyState(), NOW, calibration())
    assert (decision.move_to, decision.reason) == (None, Reason.NO_READY_REPLICA)
