"""The replay's clock: backlog, absence, open and closed loads, by numbers worked out by hand."""

from __future__ import annotations

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.simulate.driver import drive, flip_minutes
from mtpilot.simulate.score import score
from tests.unit.simulate.fleets import Script, closed, opened, site


def test_below_the_cap_everything_that_arrives_is_served():
    run = drive(site(), opened([100.0] * 4), Script({}))
    assert run.served.tolist() == [100.0] * 4
    assert run.running.tolist() == [10.0] * 4  # at 10 tok/s each
    assert run.queued.tolist() == [0.0] * 4
    assert run.request_minutes == pytest.approx(40.0)


def test_above_the_cap_a_queue_grows_and_is_carried_over():
    run = drive(site(), opened([300.0, 300.0, 100.0, 100.0]), Script({}))
    assert run.served.tolist() == [200.0, 200.0, 200.0, 200.0]
    assert run.queued.tolist() == pytest.approx([10.0, 20.0, 10.0, 0.0])  # 100 tok/s too many are 10 requests a minute
    assert run.in_system.tolist() == pytest.approx([25.0, 35.0, 35.0, 25.0])  # 20 run, and the mean of what waits
    assert run.request_minutes == pytest.approx(120.0)


def test_what_still_waits_at_the_end_is_charged():
    run = drive(site(), opened([300.0]), Script({}))
    assert run.request_minutes == pytest.approx(25.0 + 5 * 10.0)


def test_a_replica_is_away_for_the_minutes_of_its_flip_and_comes_back_in_the_other_mode():
    policy = Script({0: Mode.BATCH})
    run = drive(site(), opened([1000.0] * 6), policy)
    assert run.served.tolist() == [200.0, 100.0, 100.0, 100.0, 260.0, 260.0]
    assert run.away.tolist() == [False, True, True, True, False, False]
    assert run.batch.tolist() == [0, 0, 0, 0, 1, 1]
    assert [(moment.batch, moment.moving) for moment in policy.seen] == [
        (0, False),
        (1, True),
        (1, True),
        (1, False),
        (1, False),
        (1, False),
    ]
    assert [(moment.serving_mtp, moment.serving_batch) for moment in policy.seen] == [(2, 0), (1, 0), (1, 0), (1, 0), (1, 1), (1, 1)]
    assert [(move.minute, move.to, move.why) for move in run.moves] == [(0, Mode.BATCH, "scripted")]


def test_the_way_back_takes_a_batch_replica_away():
    run = drive(site(), opened([1000.0] * 5), Script({0: Mode.MTP}, batch=2))
    assert run.served.tolist() == [320.0, 160.0, 160.0, 160.0, 260.0]
    assert run.batch.tolist() == [2, 2, 2, 2, 1]


def test_moves_are_one_after_another_and_only_where_a_replica_is_left():
    every_minute = Script(dict.fromkeys(range(12), Mode.BATCH))
    run = drive(site(flip_minutes=2), opened([0.0] * 12), every_minute)
    assert [move.minute for move in run.moves] == [0, 2]
    assert run.batch.tolist()[-1] == 2


def test_a_lone_replica_that_is_away_serves_nothing():
    run = drive(site(replicas=1), opened([50.0] * 6), Script({0: Mode.BATCH}))
    assert run.served.tolist() == [50.0, 0.0, 0.0, 0.0, 160.0, 90.0]
    assert run.queued.tolist() == pytest.approx([0.0, 5.0, 10.0, 15.0, 4.0, 0.0])


def test_a_closed_load_keeps_its_number_and_queues_what_does_not_fit():
    policy = Script({})
    run = drive(site(), closed([10.0, 100.0, 0.0]), policy)
    assert run.served.tolist() == [100.0, 200.0, 0.0]
    assert run.in_system.tolist() == [10.0, 100.0, 0.0]
    assert run.queued.tolist() == [0.0, 80.0, 0.0]
    assert run.tokens == pytest.approx(300.0 * 60)
    assert [moment.arriving for moment in policy.seen] == [100.0, 200.0, 0.0]


def test_progress_adds_up_to_the_load():
    told: list[int] = []
    drive(site(), opened([1.0] * 450), Script({}), told.append)
    assert sum(told) == 450


@pytest.mark.parametrize(("seconds", "minutes"), [(1.0, 1), (60.0, 1), (61.0, 2), (240.0, 4)])
def test_a_flip_takes_whole_minutes(seconds: float, minutes: int):
    assert flip_minutes(seconds) == minutes


def test_latency_by_littles_law_and_by_the_order_of_arrival():
    quiet = score(drive(site(), opened([100.0] * 50), Script({})))
    assert quiet.mean_latency_seconds == pytest.approx(60.0)  # 600 tokens at 10 tok/s
    assert quiet.p99_latency_seconds == pytest.approx(60.0)
    assert (quiet.flips, quiet.overload_minutes, quiet.tokens_per_second, quiet.batch_share) == (0, 0, 100.0, 0.0)
    full = score(drive(site(), opened([300.0, 300.0, 100.0, 100.0, 100.0]), Script({})))
    assert full.p99_latency_seconds == pytest.approx(60.0 + 60.0)  # 20 wait before the one that arrives last, and 20 a minute are served
    assert full.overload_minutes == 3


def test_latency_of_a_closed_loop_is_a_clients_round():
    found = score(drive(site(), closed([40.0] * 3), Script({})))
    assert found.cost is None
    assert found.mean_latency_seconds == pytest.approx(40.0 / (200.0 / 600.0))
    assert found.p99_latency_seconds == pytest.approx(120.0)


def test_nothing_served_has_no_latency():
    found = score(drive(site(), opened([0.0] * 3), Script({})))
    assert (found.mean_latency_seconds, found.p99_latency_seconds) == (None, None)


def test_what_came_before_is_played_and_not_counted():
    policy = Script({-2: Mode.BATCH})
    run = drive(site(), opened([100.0] * 3), policy, before=opened([300.0] * 4))
    assert [moment.minute for moment in policy.seen] == list(range(-4, 3))
    assert run.away.tolist() == [True, True, False]  # it left two minutes before the load began
    assert run.batch.tolist() == [0, 0, 1]
    assert run.flips == 0
    assert policy.seen[3].queued > 0
    assert run.queued.tolist() == [0.0] * 3  # what waited is dropped
    assert run.load.minutes == len(run.served) == 3
