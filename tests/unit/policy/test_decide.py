"""Rule, guards and policy.mode together, and what a person reads in the answer."""

from dataclasses import replace

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import DecisionStatus, PolicyState
from mtpilot.model.decision import Decision, Demand, FleetState, Mix, NoDemand
from mtpilot.model.reasons import Reason
from mtpilot.policy.decide import decide
from tests.unit.policy.builders import NOW, ago, demand, fleet, full, spec, state

ALL_MTP, ALL_BATCH, TWO_TWO = Mix(mtp=4, batch=0), Mix(mtp=0, batch=4), Mix(mtp=2, batch=2)
UP = state(smoothed=4500.0, pressure="Up", for_seconds=60, queued_samples=3)
DOWN = state(smoothed=1000.0, pressure="Down", for_seconds=300)
LOST = NoDemand(reason=Reason.STALE_SERIES, message="all are old")


def overload(mix: Mix = ALL_MTP) -> Demand:
    return demand(4500.0, mix=mix, queued=12.0)


def quiet(mix: Mix = ALL_BATCH) -> Demand:
    return demand(1000.0, mix=mix)


def ask(load: Demand | NoDemand, there: FleetState, before: PolicyState, **policy) -> Decision:
    return decide(spec=spec(replicas=there.replicas, policy=policy), demand=load, fleet=there, state=before, now=NOW)


def test_up():
    found = ask(overload(), fleet(), UP)
    assert (found.move_to, found.reason, found.recommended) == (Mode.BATCH, Reason.DEMAND_ABOVE_MTP_CAPACITY, ALL_BATCH)
    for part in ("4 mtp / 0 batch → 3 mtp / 1 batch", "4500 tok/s", "3880 tok/s", "4000 tok/s (4 × 1000 tok/s)", "12 queued", "11:59:00Z"):
        assert part in found.message
    assert "empty queue" in found.would_change


def test_down():
    found = ask(quiet(), fleet(ALL_BATCH), DOWN)
    assert (found.move_to, found.reason, found.recommended) == (Mode.MTP, Reason.DEMAND_FITS_MTP, ALL_MTP)
    for part in ("0 mtp / 4 batch → 1 mtp / 3 batch", "1000 tok/s", "3000 tok/s", "25 %"):
        assert part in found.message


def test_steady():
    found = ask(demand(3500.0, mix=TWO_TWO), fleet(TWO_TWO), state(smoothed=3500.0))
    assert (found.move_to, found.reason, found.recommended) == (None, Reason.STEADY, TWO_TWO)
    assert found.would_change == (
        "to batch: demand above 3880 tok/s or requests queued for 30s; to mtp: demand below 3000 tok/s with an empty queue for 3m"
    )


def test_a_limit_for_an_empty_queue_says_how_far_off_that_is():
    found = ask(demand(3500.0, mix=TWO_TWO, queued=20.0), fleet(TWO_TWO), state(smoothed=3500.0))
    assert found.would_change.endswith("to mtp: demand below 3000 tok/s with an empty queue (20 queued now) for 3m")


def test_steady_all_mtp_speaks_of_one_direction():
    found = ask(demand(1000.0), fleet(), state(smoothed=1000.0))
    assert found.would_change == "to batch: demand above 3880 tok/s or requests queued for 30s"
    assert ask(demand(1000.0), fleet(), state(capacity=None)).would_change == "to batch: every mtp replica full or requests queued for 30s"


def test_stabilizing_says_when():
    found = ask(overload(), fleet(), state(smoothed=4500.0, pressure="Up", for_seconds=10))
    assert (found.move_to, found.reason) == (None, Reason.STABILIZING)
    assert found.would_change.startswith("at 12:00:20Z if it lasts: one replica to batch")


@pytest.mark.parametrize(
    ("there", "reason", "change"),
    [
        (fleet(moving="chat-r1", ready=3), Reason.MOVE_IN_FLIGHT, "chat-r1 serves again, or is rolled back"),
        (fleet(last_move_at=ago(300)), Reason.MIN_DWELL, "after 12:05:00Z (minDwell)"),
        (fleet(moves_last_hour=4, oldest_move_last_hour_at=ago(3540)), Reason.FLIP_BUDGET_SPENT, "after 12:01:00Z (maxFlipsPerHour)"),
        (fleet(ready=1), Reason.REPLICAS_NOT_READY, "2 ready replicas"),
        (fleet(ALL_BATCH), Reason.ALL_REPLICAS_THERE, "more replicas"),
    ],
)
def test_a_guard_holds_and_the_demand_stays_in_the_message(there, reason, change):
    found = ask(overload(there.mix), there, UP)
    assert (found.move_to, found.reason) == (None, reason)
    assert found.would_change == change
    assert "4500 tok/s" in found.message


def test_a_guard_does_not_change_the_recommendation():
    assert ask(overload(), fleet(last_move_at=ago(1)), UP).recommended == ALL_BATCH


def test_a_move_in_flight_is_named_even_when_nothing_is_wanted():
    found = ask(demand(1000.0), fleet(moving="chat-r1"), state(smoothed=1000.0))
    assert found.reason == Reason.MOVE_IN_FLIGHT


@pytest.mark.parametrize("there", [fleet(), fleet(ALL_BATCH), fleet(TWO_TWO, moving="chat-r0")])
def test_without_demand_nothing_moves_and_the_state_stays(there):
    for before in (UP, DOWN, PolicyState()):
        found = ask(LOST, there, before)
        assert (found.move_to, found.reason, found.recommended, found.state) == (None, Reason.STALE_SERIES, there.mix, before)
        assert "all are old" in found.message


def test_zero_replicas():
    found = ask(NoDemand(reason=Reason.NO_READY_REPLICA, message="none"), fleet(Mix(mtp=0, batch=0)), UP)
    assert (found.move_to, found.reason, found.recommended) == (None, Reason.SCALED_TO_ZERO, Mix(mtp=0, batch=0))
    assert found.state.pressure is None
    assert found.state.mtp_capacity_tokens_per_second == UP.mtp_capacity_tokens_per_second


def test_slots_that_do_not_exist_yet():
    found = ask(demand(1000.0), fleet(Mix(mtp=0, batch=0), replicas=4), PolicyState())
    assert found.move_to is None


def test_recommend_only_moves_nothing():
    found = ask(overload(), fleet(), UP, mode="RecommendOnly")
    assert (found.move_to, found.reason, found.recommended) == (None, Reason.RECOMMEND_ONLY, ALL_BATCH)
    assert "would move one replica to batch" in found.message
    assert ask(demand(3500.0), fleet(), state(smoothed=3500.0), mode="RecommendOnly").reason == Reason.STEADY
    assert ask(overload(), fleet(last_move_at=ago(1)), UP, mode="RecommendOnly").reason == Reason.MIN_DWELL


PINNED = {"mode": "Pinned", "pinned": {"mtp": 1, "batch": 3}}


@pytest.mark.parametrize("load", [overload(), quiet(ALL_MTP), LOST])
def test_pinned_moves_whatever_the_load(load):
    found = ask(load, fleet(last_move_at=ago(1), moves_last_hour=50), UP, **PINNED)
    assert (found.move_to, found.reason, found.recommended) == (Mode.BATCH, Reason.PINNED_MIX, Mix(mtp=1, batch=3))


def test_pinned_and_there():
    found = ask(overload(), fleet(Mix(mtp=1, batch=3)), UP, **PINNED)
    assert (found.move_to, found.reason) == (None, Reason.PINNED_MIX)
    assert found.state.pressure is None, "what is pinned is under no pressure"
    assert found.state.mtp_capacity_template is not None


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (fleet(moving="chat-r2", ready=3), Reason.MOVE_IN_FLIGHT),
        (fleet(ready=1), Reason.REPLICAS_NOT_READY),
        (fleet(failed_modes={Mode.BATCH: NOW.replace(hour=13)}), Reason.FLIP_FAILED_BACK_OFF),
    ],
)
def test_pinned_keeps_the_structural_guards(there, reason):
    found = ask(quiet(ALL_MTP), there, UP, **PINNED)
    assert (found.move_to, found.reason, found.recommended) == (None, reason, Mix(mtp=1, batch=3))


def test_pinned_after_a_scale():
    found = ask(quiet(Mix(mtp=8, batch=0)), fleet(Mix(mtp=8, batch=0)), UP, **PINNED)
    assert found.recommended == Mix(mtp=2, batch=6)


def test_a_lone_replica_waits_for_permission():
    mix = Mix(mtp=1, batch=0)
    load = replace(demand(1200.0, mix=mix, queued=9.0), replicas=(full(),))
    before = state(smoothed=1200.0, pressure="Up", for_seconds=60, queued_samples=3)
    held = decide(spec=spec(replicas=1), demand=load, fleet=fleet(mix), state=before, now=NOW)
    assert (held.move_to, held.reason) == (None, Reason.DOWNTIME_NOT_ALLOWED)
    assert "allowDowntime" in held.would_change
    free = spec(replicas=1, rollout={"allowDowntime": True})
    assert decide(spec=free, demand=load, fleet=fleet(mix), state=before, now=NOW).move_to is Mode.BATCH


def test_the_minimum_moves_a_fleet_that_is_steady():
    found = ask(demand(1000.0), fleet(), state(smoothed=1000.0), minReplicas={"batch": 1})
    assert (found.move_to, found.reason, found.recommended) == (Mode.BATCH, Reason.BELOW_MIN_REPLICAS, Mix(mtp=3, batch=1))


@pytest.mark.parametrize(
    ("load", "there", "before"),
    [
        (overload(), fleet(), UP),
        (quiet(), fleet(ALL_BATCH), DOWN),
        (LOST, fleet(), UP),
        (demand(1000.0, missing=tuple(f"chat-r{i}-{'x' * 40}" for i in range(60))), fleet(Mix(mtp=0, batch=64)), DOWN),
        (demand(1e12, queued=1e9), fleet(), UP),
    ],
)
def test_every_answer_fits_the_status(load, there, before):
    found = ask(load, there, before)
    assert DecisionStatus(reason=found.reason, message=found.message, would_change=found.would_change)
    assert PolicyState.model_validate(found.state.model_dump(by_alias=True)) == found.state
