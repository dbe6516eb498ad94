"""What each policy does with what it is shown."""

from __future__ import annotations

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.curves.conclusion import conclude
from mtpilot.curves.curve import CurvePair
from mtpilot.model.decision import Demand
from mtpilot.policy.fluid import FluidFleet
from mtpilot.simulate import catalogue
from mtpilot.simulate.decided import MINUTE, START, Decided, Operator, spec_of
from mtpilot.simulate.driver import Moment, drive
from mtpilot.simulate.policies import DWELL_MINUTES, ThresholdDemand, ThresholdRunning, adaptive_curve
from mtpilot.simulate.sharing import Sharing
from tests.unit.simulate.fleets import PAIR, closed, curve, opened, site

ABOVE, BELOW = 250.0, 50.0  # of 200 tok/s that two mtp replicas serve


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_every_policy_runs_and_has_its_name(name: str):
    run = drive(site(), opened([ABOVE] * 20 + [BELOW] * 20), catalogue.policy(name, catalogue.calibration("pair", PAIR)))
    assert run.policy == name
    assert run.load.minutes == len(run.served) == 40
    assert name in catalogue.DESCRIPTIONS


@pytest.mark.parametrize(("mode", "batch"), [(Mode.MTP, 0), (Mode.BATCH, 2)])
def test_always_stays(mode: Mode, batch: int):
    run = drive(site(), opened([ABOVE] * 30), catalogue.policy(f"always_{mode}", catalogue.calibration("pair", PAIR)))
    assert (set(run.batch.tolist()), run.flips) == ({batch}, 0)


def test_adaptive_speculation_is_the_better_at_each_batch_in_mtps_slots():
    pair = CurvePair(mtp=curve((1, 40), (4, 80), (8, 90)), batch=curve((1, 20), (4, 70), (6, 100), (8, 120), (16, 180)))
    free, taxed = adaptive_curve(pair, 0.0), adaptive_curve(pair, 0.2)
    assert list(free.concurrency) == [1, 4, 6, 8]
    assert list(free.tokens_per_second) == [40, 80, 100, 120]
    assert list(taxed.tokens_per_second) == pytest.approx([40, 80, 85, 96])


def test_a_threshold_on_running_stands_at_full_slots_where_the_crossover_is_beyond_them():
    policy = ThresholdRunning(conclude(PAIR))
    run = drive(site(), opened([150.0] * 30 + [ABOVE] * 30), policy)
    assert run.moves[0].to is Mode.BATCH
    assert run.moves[0].minute >= 30
    assert "threshold 9.7" in run.moves[0].why


def test_a_threshold_on_running_never_moves_curves_that_do_not_cross():
    mtp_only = CurvePair(mtp=curve((10, 200)), batch=curve((10, 100)))
    batch_only = CurvePair(mtp=curve((10, 100)), batch=curve((10, 200)))
    for pair, batch in ((mtp_only, 0), (batch_only, 2)):
        run = drive(site(pair=pair), opened([500.0] * 40), ThresholdRunning(conclude(pair)))
        assert run.flips == 0
        assert set(run.batch.tolist()) == {batch}


def test_two_thresholds_on_demand_go_up_and_down_and_dwell_between():
    run = drive(site(flip_minutes=1), opened([ABOVE] * 60 + [BELOW] * 60), ThresholdDemand())
    assert [move.to for move in run.moves] == [Mode.BATCH, Mode.BATCH, Mode.MTP, Mode.MTP]
    assert all(b.minute - a.minute >= DWELL_MINUTES for a, b in zip(run.moves, run.moves[1:], strict=False))
    steady = drive(site(), opened([170.0] * 60), ThresholdDemand())
    assert steady.flips == 0


def test_the_operators_guards_are_on_unless_told_otherwise():
    assert spec_of(site()).policy.min_dwell == "10m"
    assert spec_of(site()).policy.max_flips_per_hour == 4
    assert spec_of(site(), guards=False).policy.min_dwell == "0s"


def test_the_operator_decides_by_the_profile_and_says_why():
    policy = Decided("predictive", catalogue.calibration("pair", PAIR), explain=True)
    run = drive(site(), opened([BELOW] * 30 + [ABOVE] * 60), policy)
    assert run.moves
    assert run.moves[0].to is Mode.BATCH
    assert run.moves[0].minute >= 30
    assert "tok/s" in run.moves[0].why


def test_the_operator_sees_the_fleet_as_metrics_would_show_it():
    operator, now = Operator(site(), spec_of(site()), None, explain=False), START + 5 * MINUTE
    moment = Moment(
        minute=4,
        batch=1,
        serving_batch=1,
        serving_mtp=0,
        moving=True,
        arriving=200.0,
        served=160.0,
        running=40.0,
        queued=12.0,
        in_system=50.0,
    )
    demand = operator.demand(moment, now)
    assert isinstance(demand, Demand)
    assert demand.demand_tokens_per_second == 200.0
    assert (demand.in_flight, demand.queued, demand.saturated) == (40.0, 12.0, True)
    [sample] = demand.replicas
    assert (sample.mode, sample.running, sample.tokens_per_second, sample.slots) == (Mode.BATCH, 40.0, 160.0, 40)
    fleet = operator.fleet(moment, now)
    assert (fleet.mix.mtp, fleet.mix.batch, fleet.ready, fleet.moving is not None) == (1, 1, 1, True)


def test_while_nobody_serves_there_is_no_demand():
    lone = site(replicas=1)
    run = drive(lone, opened([ABOVE] * 60), Decided("predictive", catalogue.calibration("pair", PAIR)))
    assert run.flips == 1
    assert run.batch.tolist()[-1] == 1


def test_shares_add_up_to_what_the_mix_runs_and_serves():
    pair = CurvePair(mtp=curve((2, 60), (10, 100)), batch=curve((4, 40), (40, 160)))
    here = site(replicas=3, pair=pair)
    sharing, fleet = Sharing(here), FluidFleet(pair, 3, by_latency=False)
    for mtp, batch in ((3, 0), (2, 1), (0, 3), (1, 1)):
        mix = fleet.of(mtp, batch)
        for running in (0.0, 1.0, 3.7, 0.6 * mix.slots, mix.slots):
            (in_mtp, mtp_rate), (in_batch, batch_rate) = sharing.of(mtp, batch, running)
            assert mtp * in_mtp + batch * in_batch == pytest.approx(running)
            assert mtp * mtp_rate + batch * batch_rate == pytest.approx(mix.rate(running))


def test_a_closed_loop_is_followed_to_batch():
    calibration = catalogue.calibration("pair", PAIR)
    run = drive(site(), closed([8.0] * 60 + [80.0] * 240), catalogue.policy("predictive", calibration))
    assert run.batch.tolist()[-1] == 2


def test_the_operators_fleet_begins_as_the_verdict_of_its_profile_says():
    batch_only = catalogue.calibration("pair", CurvePair(mtp=curve((10, 100)), batch=curve((10, 200))))
    run = drive(site(), opened([50.0] * 5), Decided("predictive", batch_only))
    assert (run.batch.tolist(), run.flips) == ([2] * 5, 0)


@pytest.mark.parametrize("slots", [4096, 4097, 65_536])
def test_a_curve_with_more_slots_than_a_spec_may_ask_for_can_be_replayed(slots: int):
    wide = site(pair=CurvePair(mtp=curve((1, 100), (8, 200)), batch=curve((1, 60), (slots, 6000))))
    assert spec_of(wide).modes.batch.max_running_requests == 4096
