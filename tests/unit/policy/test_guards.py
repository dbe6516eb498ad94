from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.types import format_duration
from mtpilot.model.decision import FleetState, Mix
from mtpilot.model.reasons import Reason
from mtpilot.policy.assess import Assessment
from mtpilot.policy.guards import (
    AUTO_CHAIN,
    PINNED_CHAIN,
    PREDICTED_CHAIN,
    Check,
    Proposal,
    Violation,
    dwell_seconds,
    first_violation,
    flips_per_hour,
)
from tests.unit.policy.builders import NOW, ago, fleet, spec

TWO_TWO = Mix(mtp=2, batch=2)


def numbers(**changes: Any) -> Assessment:
    base = Assessment(
        replicas=4,
        smoothed=2000.0,
        current=2000.0,
        capacity=1000.0,
        up_share=0.97,
        down_share=0.75,
        in_flight=40.0,
        queued=0.0,
        queued_samples=0,
        all_full=False,
        any_full=False,
        any_mtp_full=False,
        mtp_slots=96,
    )
    return replace(base, **changes)


def proposal(
    to: Mode = Mode.MTP,
    state: FleetState | None = None,
    config: InferenceServiceSpec | None = None,
    a: Assessment | None = None,
    **changes: Any,
) -> Proposal:
    return Proposal(
        spec=config if config is not None else spec(),
        fleet=state if state is not None else fleet(TWO_TWO),
        now=NOW,
        to=to,
        assessment=a if a is not None else numbers(),
        **changes,
    )


def violation(p: Proposal, chain: tuple[Check, ...] = AUTO_CHAIN) -> Violation:
    found = first_violation(chain, p)
    assert found is not None
    return found


def test_a_good_move_passes():
    assert first_violation(AUTO_CHAIN, proposal()) is None
    assert first_violation(PINNED_CHAIN, proposal()) is None


def test_the_order_of_the_guards():
    """Everything is wrong at once; each guard, once satisfied, uncovers the next."""
    config = spec(policy={"minReplicas": {"batch": 2}, "maxFlipsPerHour": 4}, rollout={"strategy": "Surge"})
    surge = fleet(
        Mix(mtp=4, batch=0),
        moving="chat-r1",
        ready=1,
        last_move_at=ago(60),
        moves_last_hour=4,
        oldest_move_last_hour_at=ago(3000),
        failed_modes={Mode.MTP: NOW + timedelta(hours=1)},
    )
    a = numbers(smoothed=3900.0, current=3900.0)
    seen = []
    steps: list[dict[str, Any]] = [
        {"moving": None},
        {"mix": Mix(mtp=2, batch=2)},
        {"mix": Mix(mtp=1, batch=3)},
        {"last_move_at": None},
        {"moves_last_hour": 0},
        {"ready": 4},
        {},
        {"gpus_free": 4},
        {"failed_modes": {}},
    ]
    state = surge
    for step in steps:
        seen.append(violation(proposal(state=state, config=config, a=a)).reason)
        if not step:
            a = numbers()
            continue
        state = replace(state, **step)
    assert seen == [
        Reason.MOVE_IN_FLIGHT,
        Reason.ALL_REPLICAS_THERE,
        Reason.MIN_REPLICAS,
        Reason.MIN_DWELL,
        Reason.FLIP_BUDGET_SPENT,
        Reason.REPLICAS_NOT_READY,
        Reason.WOULD_MOVE_BACK,
        Reason.NO_SURGE_CAPACITY,
        Reason.FLIP_FAILED_BACK_OFF,
    ]
    assert first_violation(AUTO_CHAIN, proposal(state=state, config=config, a=a)) is None
    assert [check.__name__ for check in AUTO_CHAIN].index("peers_keep_up") == [c.__name__ for c in AUTO_CHAIN].index("stays_moved") + 1


def test_pinned_asks_only_what_the_structure_demands():
    state = fleet(TWO_TWO, last_move_at=ago(1), moves_last_hour=99, ready=2)
    assert first_violation(PINNED_CHAIN, proposal(state=state)) is None
    assert violation(proposal(state=replace(state, moving="chat-r0")), PINNED_CHAIN).reason is Reason.MOVE_IN_FLIGHT
    assert violation(proposal(state=replace(state, ready=1)), PINNED_CHAIN).reason is Reason.REPLICAS_NOT_READY
    failed = replace(state, failed_modes={Mode.MTP: NOW + timedelta(seconds=1)})
    assert violation(proposal(state=failed), PINNED_CHAIN).reason is Reason.FLIP_FAILED_BACK_OFF


@pytest.mark.parametrize(("to", "mix"), [(Mode.BATCH, Mix(mtp=0, batch=4)), (Mode.MTP, Mix(mtp=4, batch=0))])
def test_nothing_left(to, mix):
    found = violation(proposal(to, fleet(mix)))
    assert found.reason is Reason.ALL_REPLICAS_THERE
    assert f"all 4 replicas are {to}" in found.message


@pytest.mark.parametrize(
    ("to", "mix", "least", "holds"),
    [
        (Mode.BATCH, Mix(mtp=1, batch=3), {"mtp": 1}, True),
        (Mode.BATCH, Mix(mtp=2, batch=2), {"mtp": 1}, False),
        (Mode.MTP, Mix(mtp=3, batch=1), {"batch": 1}, True),
        (Mode.MTP, Mix(mtp=2, batch=2), {"batch": 1}, False),
        (Mode.BATCH, Mix(mtp=4, batch=0), {"batch": 2}, False),  # outside already, towards the bounds
        (Mode.MTP, Mix(mtp=0, batch=4), {"mtp": 2}, False),
        (Mode.MTP, Mix(mtp=3, batch=1), {"batch": 2}, True),  # outside already, further out
    ],
)
def test_min_replicas(to, mix, least, holds):
    p = proposal(to, fleet(mix), spec(policy={"minReplicas": least}), overloaded=to is Mode.BATCH, a=numbers(all_full=True))
    found = first_violation(AUTO_CHAIN, p)
    assert (found is not None and found.reason is Reason.MIN_REPLICAS) is holds


@pytest.mark.parametrize(
    ("dwell", "flip", "since", "holds"),
    [
        ("10m", None, 599, True),
        ("10m", None, 600, False),
        ("10m", 400.0, 799, True),  # the default stretches to two flips
        ("10m", 400.0, 800, False),
        ("5m", 400.0, 300, False),  # what the user says holds
        ("0s", 400.0, 0, False),
    ],
)
def test_min_dwell(dwell, flip, since, holds):
    state = fleet(TWO_TWO, last_move_at=ago(since), median_flip_seconds=flip)
    found = first_violation(AUTO_CHAIN, proposal(state=state, config=spec(policy={"minDwell": dwell})))
    assert (found is not None) is holds
    if found is not None:
        assert found.reason is Reason.MIN_DWELL
        ends = ago(since) + timedelta(seconds=dwell_seconds(spec(policy={"minDwell": dwell}), state))
        assert found.would_change == f"after {ends:%H:%M:%S}Z (minDwell)"


def test_dwell_is_against_flapping_so_moves_in_one_direction_only_wait_for_one_another():
    there = fleet(TWO_TWO, last_move_at=ago(10), last_move_to=Mode.MTP)
    assert first_violation(AUTO_CHAIN, proposal(Mode.MTP, state=there)) is None
    assert violation(proposal(Mode.BATCH, state=there, a=numbers(smoothed=4500.0, current=4500.0))).reason is Reason.MIN_DWELL


@pytest.mark.parametrize(
    ("policy", "replicas", "most"),
    [({}, 2, 4), ({}, 8, 8), ({"maxFlipsPerHour": 3}, 8, 3), ({"maxFlipsPerHour": 0}, 8, 0), ({"maxFlipsPerHour": 40}, 8, 40)],
)
def test_the_default_budget_lets_a_whole_fleet_go_over_once(policy, replicas, most):
    assert flips_per_hour(spec(policy=policy), replicas) == most


def test_a_predicted_move_asks_no_guard_that_stands_in_for_a_prediction():
    """Peers that would be too busy, a demand that would call it back: the prediction has both in it."""
    there = fleet(TWO_TWO, ready=3)
    busy = proposal(Mode.MTP, state=there, a=numbers(smoothed=3900.0, current=3900.0))
    assert violation(busy).reason is Reason.WOULD_MOVE_BACK
    assert first_violation(PREDICTED_CHAIN, busy) is None


@pytest.mark.parametrize(("moves", "most", "holds"), [(3, 4, False), (4, 4, True), (5, 4, True), (0, 0, True)])
def test_flip_budget(moves, most, holds):
    state = fleet(TWO_TWO, moves_last_hour=moves, oldest_move_last_hour_at=ago(3000) if moves else None)
    found = first_violation(AUTO_CHAIN, proposal(state=state, config=spec(policy={"maxFlipsPerHour": most})))
    assert (found is not None and found.reason is Reason.FLIP_BUDGET_SPENT) is holds
    if found is not None:
        assert found.would_change == ("after 12:10:00Z (maxFlipsPerHour)" if moves else "a larger policy.maxFlipsPerHour")


@pytest.mark.parametrize(("ready", "of", "holds"), [(4, 4, False), (2, 4, False), (1, 4, True), (0, 4, True), (2, 3, False), (1, 3, True)])
def test_half_of_the_replicas_must_be_ready(ready, of, holds):
    """NB: a lone replica that is ready passes; whether it may go is the strategy's question."""
    state = fleet(Mix(mtp=of - 2, batch=2), ready=ready)
    found = first_violation(AUTO_CHAIN, proposal(state=state, a=numbers(smoothed=0.0, current=0.0)))
    assert (found is not None and found.reason is Reason.REPLICAS_NOT_READY) is holds


@pytest.mark.parametrize(
    ("to", "smoothed", "current", "full", "holds"),
    [
        (Mode.MTP, 2000.0, 3900.0, False, True),  # the last sample is above the limit to move up
        (Mode.MTP, 3900.0, 2000.0, False, True),
        (Mode.BATCH, 2900.0, 2900.0, False, True),  # a queue beside free slots
        (Mode.BATCH, 2900.0, 3100.0, False, False),
        (Mode.BATCH, 2000.0, 2000.0, True, False),  # every replica is full: the capacity is less than it was
    ],
)
def test_a_move_that_would_be_taken_back(to, smoothed, current, full, holds):
    a = numbers(smoothed=smoothed, current=current, all_full=full)
    found = first_violation(AUTO_CHAIN, proposal(to, a=a, overloaded=to is Mode.BATCH))
    assert (found is not None and found.reason is Reason.WOULD_MOVE_BACK) is holds


@pytest.mark.parametrize(("full", "holds"), [(True, False), (False, True)])
def test_a_queue_beside_free_slots_is_no_reason_for_more_slots(full, holds):
    a = numbers(capacity=None, any_full=full, queued=3.0)
    found = first_violation(AUTO_CHAIN, proposal(Mode.BATCH, a=a, overloaded=True))
    assert (found is not None and found.reason is Reason.WOULD_MOVE_BACK) is holds


def test_nothing_is_predicted_without_a_capacity_or_for_a_bound_of_the_spec():
    a = numbers(smoothed=3000.0, current=3900.0)
    assert violation(proposal(a=a, forced=True)).reason is Reason.PEERS_TOO_BUSY
    unknown = numbers(capacity=None, in_flight=10.0, smoothed=3900.0, current=3900.0)
    assert first_violation(AUTO_CHAIN, proposal(a=unknown)) is None


@pytest.mark.parametrize(
    ("load", "ready", "strategy", "overloaded", "holds"),
    [
        (2550.0, 4, "Auto", False, False),
        (2551.0, 4, "Auto", False, True),
        (1701.0, 3, "Auto", False, True),
        (3000.0, 4, "Auto", True, False),  # the move is the remedy
        (3000.0, 4, "Surge", False, False),  # nobody is away
        (3000.0, 4, "Recreate", False, True),
    ],
)
def test_peers(load, ready, strategy, overloaded, holds):
    p = proposal(
        state=fleet(TWO_TWO, ready=ready, gpus_free=4),
        config=spec(rollout={"strategy": strategy}),
        a=numbers(smoothed=load, current=0.0),
        overloaded=overloaded,
    )
    found = first_violation(AUTO_CHAIN, p)
    assert (found is not None and found.reason is Reason.PEERS_TOO_BUSY) is holds


def test_peers_are_judged_by_slots_while_the_capacity_is_unknown():
    assert first_violation(AUTO_CHAIN, proposal(a=numbers(capacity=None, in_flight=61.0))) is None
    found = violation(proposal(a=numbers(capacity=None, in_flight=62.0)))
    assert found.reason is Reason.PEERS_TOO_BUSY
    assert "61 requests" in found.would_change


def test_a_lone_replica_has_no_peers():
    config = spec(replicas=1, rollout={"allowDowntime": True})
    p = proposal(state=fleet(Mix(mtp=0, batch=1)), config=config, a=numbers(replicas=1, smoothed=700.0, current=700.0))
    assert first_violation(AUTO_CHAIN, p) is None


@pytest.mark.parametrize(("seconds", "holds"), [(1, True), (0, False), (-1, False)])
def test_back_off(seconds, holds):
    until = NOW + timedelta(seconds=seconds)
    found = first_violation(AUTO_CHAIN, proposal(state=fleet(TWO_TWO, failed_modes={Mode.MTP: until})))
    assert (found is not None and found.reason is Reason.FLIP_FAILED_BACK_OFF) is holds
    assert first_violation(AUTO_CHAIN, proposal(state=fleet(TWO_TWO, failed_modes={Mode.BATCH: until}))) is None


def test_every_violation_says_what_would_change_it():
    every = [
        proposal(state=fleet(TWO_TWO, moving="chat-r0")),
        proposal(state=fleet(TWO_TWO, last_move_at=ago(1))),
        proposal(state=fleet(TWO_TWO, moves_last_hour=9)),
        proposal(state=fleet(TWO_TWO, ready=0)),
        proposal(config=spec(rollout={"strategy": "Surge"})),
    ]
    for p in every:
        found = violation(p)
        assert found.would_change
        assert found.message


def test_the_default_dwell_is_the_apis():
    assert dwell_seconds(spec(), fleet()) == 600
    assert format_duration(timedelta(seconds=dwell_seconds(spec(), fleet(median_flip_seconds=1000.0)))) == "33m20s"
