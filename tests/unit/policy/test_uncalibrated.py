"""The rule alone: signals, how long they last, where they lead, what the state remembers."""

from dataclasses import replace
from typing import Any

import pytest

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Mix
from mtpilot.model.reasons import Reason
from mtpilot.policy.advice import Advice
from mtpilot.policy.assess import Assessment
from mtpilot.policy.timing import from_text
from mtpilot.policy.uncalibrated import advise
from tests.unit.policy.builders import CAPACITY, NOW, ago, demand, fleet, full, spec, state

ALL_MTP, ALL_BATCH, TWO_TWO = Mix(mtp=4, batch=0), Mix(mtp=0, batch=4), Mix(mtp=2, batch=2)


def numbers(advice: Advice) -> Assessment:
    assert advice.assessment is not None
    return advice.assessment


def ask(
    tokens_per_second: float,
    before: PolicyState,
    mix: Mix = ALL_MTP,
    *,
    config: InferenceServiceSpec | None = None,
    fleet_changes: dict[str, Any] | None = None,
    **demand_changes: Any,
) -> Advice:
    load = demand(tokens_per_second, mix=mix, **demand_changes)
    return advise(spec=config or spec(), demand=load, fleet=fleet(mix, **(fleet_changes or {})), state=before, now=NOW)


@pytest.mark.parametrize(
    ("load", "mix", "pressure"),
    [
        (3881.0, ALL_MTP, "Up"),
        (3880.0, ALL_MTP, None),
        (3001.0, ALL_MTP, None),
        (100.0, ALL_MTP, None),  # nothing to bring back
        (3881.0, TWO_TWO, "Up"),
        (3400.0, TWO_TWO, None),
        (3000.0, TWO_TWO, None),
        (2999.0, TWO_TWO, "Down"),
        (0.0, ALL_BATCH, "Down"),
    ],
)
def test_two_thresholds_on_demand(load, mix, pressure):
    found = ask(load, state(smoothed=load), mix)
    assert found.state.pressure == pressure
    assert found.to is None
    assert found.reason == (Reason.STABILIZING if pressure else Reason.STEADY)


def test_thresholds_are_the_users():
    config = spec(policy={"thresholds": {"up": "0.5", "down": "0.2"}})
    assert ask(2001.0, state(smoothed=2001.0), config=config).state.pressure == "Up"
    assert ask(900.0, state(smoothed=900.0), TWO_TWO, config=config).state.pressure is None


def test_up_needs_the_average_and_the_sample():
    assert ask(9000.0, state(smoothed=3000.0, seen_before_seconds=1)).state.pressure is None, "one sample never decides"
    assert ask(1000.0, state(smoothed=9000.0)).state.pressure is None, "an overload that is over is none"


def test_a_queue_counts_from_its_second_sample():
    first = ask(3500.0, state(smoothed=3500.0), queued=3.0)
    assert (first.state.queued_samples, first.state.pressure) == (1, None)
    second = ask(3500.0, state(smoothed=3500.0, queued_samples=1), queued=3.0)
    assert (second.state.queued_samples, second.state.pressure) == (2, "Up")
    assert ask(3500.0, state(smoothed=3500.0, queued_samples=2)).state.queued_samples == 0


def test_looks_within_one_scrape_are_one_sample():
    before = state(smoothed=2000.0, queued_samples=1, seen_before_seconds=3.0)
    found = ask(9000.0, before, queued=3.0)
    assert found.state == before
    assert numbers(found).smoothed == 2000.0
    assert numbers(found).current == 9000.0


def test_a_queue_keeps_batch():
    assert ask(1000.0, state(smoothed=1000.0), TWO_TWO, queued=1.0).state.pressure is None


@pytest.mark.parametrize(
    ("pressure", "load", "mix", "lasting", "moves"),
    [
        ("Up", 4000.0, ALL_MTP, 29, False),
        ("Up", 4000.0, ALL_MTP, 30, True),
        ("Down", 2000.0, ALL_BATCH, 179, False),
        ("Down", 2000.0, ALL_BATCH, 180, True),
        ("Down", 4000.0, ALL_MTP, 999, False),  # the other direction starts anew
    ],
)
def test_a_signal_must_last(pressure, load, mix, lasting, moves):
    found = ask(load, state(smoothed=load, pressure=pressure, for_seconds=lasting), mix)
    assert (found.to is not None) is moves
    if not moves:
        assert found.reason is Reason.STABILIZING
        assert found.recommended == mix


def test_no_stabilization_moves_at_once():
    config = spec(policy={"stabilization": {"up": "0s", "down": "0s"}})
    assert ask(4000.0, PolicyState(), config=config, replicas=(full(0), full(1), full(2), full(3))).to is None, "capacity unknown"
    assert ask(4000.0, state(), config=config).to is Mode.BATCH


@pytest.mark.parametrize(
    ("up", "gap", "kept"),
    [("30s", 60.0, True), ("30s", 61.0, False), ("5s", 60.0, True), ("5s", 61.0, False), ("2m", 240.0, True), ("2m", 241.0, False)],
)
def test_a_gap_in_observation_restarts_the_signal(up, gap, kept):
    config = spec(policy={"stabilization": {"up": up}})
    before = state(smoothed=4500.0, pressure="Up", for_seconds=500.0, seen_before_seconds=gap)
    since = from_text(ask(4500.0, before, config=config).state.pressure_since)
    assert since == (ago(500.0) if kept else NOW)


def test_a_signal_starts_anew_while_a_slot_is_away():
    before = state(smoothed=4500.0, pressure="Up", for_seconds=500.0)
    found = ask(4500.0, before, fleet_changes={"moving": "chat-r0", "ready": 3})
    assert found.to is None
    assert from_text(found.state.pressure_since) == NOW


@pytest.mark.parametrize("at", ["not a time", "2027-01-01T00:00:00Z"])
def test_a_state_that_makes_no_sense_starts_anew(at):
    before = PolicyState(smoothed_tokens_per_second="9999", pressure="Up", pressure_since=at, observed_at=at, queued_samples=9)
    found = ask(1000.0, before)
    assert found.to is None
    assert numbers(found).smoothed == 1000.0
    assert found.state.queued_samples == 0


@pytest.mark.parametrize(
    ("reason_load", "queued", "mix", "recommended"),
    [
        (4500.0, 0.0, ALL_MTP, ALL_BATCH),  # by demand: all the way
        (3500.0, 5.0, ALL_MTP, Mix(mtp=3, batch=1)),  # by a queue: one step
        (3500.0, 5.0, TWO_TWO, Mix(mtp=1, batch=3)),
        (4500.0, 5.0, TWO_TWO, ALL_BATCH),
        (4500.0, 5.0, ALL_BATCH, ALL_BATCH),
    ],
)
def test_where_up_leads(reason_load, queued, mix, recommended):
    before = state(smoothed=reason_load, pressure="Up", for_seconds=60, queued_samples=3)
    found = ask(reason_load, before, mix, queued=queued)
    assert found.to is Mode.BATCH
    assert found.recommended == recommended
    assert found.overloaded
    assert found.reason == (Reason.DEMAND_ABOVE_MTP_CAPACITY if reason_load > 3880 else Reason.REQUESTS_QUEUED)


def test_down_leads_to_all_mtp():
    found = ask(1000.0, state(smoothed=1000.0, pressure="Down", for_seconds=200), TWO_TWO)
    assert (found.to, found.recommended, found.reason) == (Mode.MTP, ALL_MTP, Reason.DEMAND_FITS_MTP)
    assert not found.overloaded


def test_recommendations_respect_the_minimums():
    config = spec(policy={"minReplicas": {"mtp": 1, "batch": 1}})
    up = ask(4500.0, state(smoothed=4500.0, pressure="Up", for_seconds=60), TWO_TWO, config=config)
    assert up.recommended == Mix(mtp=1, batch=3)
    down = ask(500.0, state(smoothed=500.0, pressure="Down", for_seconds=600), TWO_TWO, config=config)
    assert down.recommended == Mix(mtp=3, batch=1)
    there = ask(500.0, state(smoothed=500.0, pressure="Down", for_seconds=600), Mix(mtp=3, batch=1), config=config)
    assert (there.to, there.reason) == (None, Reason.STEADY)


@pytest.mark.parametrize(("mix", "to"), [(ALL_MTP, Mode.BATCH), (ALL_BATCH, Mode.MTP)])
def test_a_fleet_outside_the_minimums_moves_into_them(mix, to):
    config = spec(policy={"minReplicas": {"mtp": 1, "batch": 1}})
    found = ask(3500.0, state(smoothed=3500.0), mix, config=config)
    assert (found.to, found.reason, found.forced) == (to, Reason.BELOW_MIN_REPLICAS, True)


def test_all_mtp_needs_no_capacity_to_stay():
    found = ask(1000.0, state(capacity=None))
    assert (found.reason, found.to) == (Reason.STEADY, None)
    assert "not seen yet" in found.message


@pytest.mark.parametrize(("running", "reason"), [(6.0, Reason.STABILIZING), (7.0, Reason.CAPACITY_UNKNOWN)])
def test_the_way_out_of_batch_without_a_capacity(running, reason):
    """Up to a quarter of the 96 mtp slots is sure to fit; beyond that nobody knows."""
    found = ask(1000.0, state(capacity=None), ALL_BATCH, running=running)
    assert found.reason is reason
    assert found.state.pressure == ("Down" if reason is Reason.STABILIZING else None)


def test_an_unknown_capacity_and_a_queue_is_an_up_signal():
    found = ask(3000.0, state(capacity=None, pressure="Up", for_seconds=60, queued_samples=4), queued=9.0)
    assert (found.to, found.reason) == (Mode.BATCH, Reason.REQUESTS_QUEUED)


def test_the_capacity_is_learned_on_the_way():
    load = replace(demand(4000.0), replicas=tuple(full(i) for i in range(4)), in_flight=96.0, saturated=True)
    first = advise(spec=spec(), demand=load, fleet=fleet(), state=state(capacity=None), now=NOW)
    assert first.reason is Reason.CAPACITY_UNKNOWN
    assert (first.state.mtp_capacity_tokens_per_second, first.state.mtp_capacity_template) == ("1000.000", None)
    later = first.state.model_copy(update={"observed_at": "2026-12-01T11:59:50Z"})
    second = advise(spec=spec(), demand=load, fleet=fleet(), state=later, now=NOW)
    assert numbers(second).capacity == CAPACITY
    assert second.state.pressure == "Up", "full replicas without a queue are the cap itself"


def test_a_new_template_forgets_the_capacity():
    load = replace(demand(1000.0), replicas=tuple(replace(r, digest="cccccccccccc") for r in demand(1000.0).replicas))
    found = advise(spec=spec(), demand=load, fleet=fleet(), state=state(smoothed=1000.0), now=NOW)
    assert numbers(found).capacity is None
    assert found.state.mtp_capacity_tokens_per_second is None


@pytest.mark.parametrize("load", [500.0, 3500.0])
def test_missing_series_never_bring_replicas_back(load):
    before = state(smoothed=load, pressure="Down", for_seconds=999)
    found = ask(load, before, ALL_BATCH, missing=("chat-r3-x",))
    assert (found.to, found.reason) == (None, Reason.PARTIAL_SERIES)
    assert "chat-r3-x" in found.message


def test_missing_series_do_not_hide_an_overload():
    """What is seen is a lower bound, and it is above the limit already."""
    before = state(smoothed=4500.0, pressure="Up", for_seconds=60)
    assert ask(4500.0, before, missing=("chat-r3-x",)).to is Mode.BATCH


def test_other_memories_stay():
    before = state(smoothed=1000.0).model_copy(update={"recent_moves": ("2026-12-01T11:30:00Z",)})
    assert ask(1000.0, before).state.recent_moves == ("2026-12-01T11:30:00Z",)


def test_the_limits_scale_with_the_replicas():
    """The thresholds belong to the fleet as it is, whatever its size."""
    for replicas in (1, 2, 8):
        mix = Mix(mtp=replicas, batch=0)
        over = 0.98 * CAPACITY * replicas
        assert ask(over, state(smoothed=over), mix, config=spec(replicas=replicas)).state.pressure == "Up"
