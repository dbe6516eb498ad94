"""Whole days on the toy fleet: the mix follows the load, and it rarely moves."""

import math
from collections.abc import Callable
from datetime import timedelta

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.model.decision import Mix
from mtpilot.policy.timing import number
from tests.property.policy.toy_fleet import MTP_CAPACITY, START, ToyFleet
from tests.unit.policy.builders import modes_of, spec

ALL_MTP, ALL_BATCH = Mix(mtp=4, batch=0), Mix(mtp=0, batch=4)
TICK_SECONDS = 40.0


def live(hours: float, load: Callable[[float], float], *, mix: Mix = ALL_MTP, closed: bool = False) -> ToyFleet:
    """load: hour → tok/s as a share of the all-mtp capacity, or clients per replica where closed."""
    toy = ToyFleet(spec(), list(modes_of(mix)), closed=closed)
    unit = 4.0 if closed else 4 * MTP_CAPACITY
    for i in range(round(hours * 3600 / TICK_SECONDS)):
        toy.tick(unit * load(i * TICK_SECONDS / 3600), TICK_SECONDS)
    return toy


def directions(toy: ToyFleet) -> list[Mode]:
    return [flip.to for flip in toy.flips]


def day(hour: float) -> float:
    """A quarter of the mtp capacity at night, a quarter above it by day, with gusts of 5 % every ten minutes."""
    return 0.75 - 0.5 * math.cos(hour / 24 * 2 * math.pi) + 0.05 * math.sin(hour * 6 * 2 * math.pi)


@pytest.fixture(scope="module")
def one_day() -> ToyFleet:
    return live(24, day)


def test_a_day_moves_every_replica_there_and_back_once(one_day):
    assert directions(one_day) == [Mode.BATCH] * 4 + [Mode.MTP] * 4
    assert one_day.mix == ALL_MTP


def test_it_moves_when_the_load_crosses_the_limits(one_day):
    first, back = one_day.flips[0].at - START, one_day.flips[4].at - START
    assert timedelta(hours=7) < first < timedelta(hours=8), "the load is at the cap at 8:00"
    assert timedelta(hours=18) < back < timedelta(hours=19, minutes=30)


def test_it_learned_the_capacity(one_day):
    learned = number(one_day.state.mtp_capacity_tokens_per_second)
    assert learned == pytest.approx(MTP_CAPACITY, rel=0.03)


def test_an_open_overload_moves_up_and_a_drop_moves_back():
    toy = live(4, lambda hour: 0.5 if hour < 0.5 or hour > 2 else 1.3)
    assert directions(toy) == [Mode.BATCH] * 4 + [Mode.MTP] * 4
    assert toy.flips[0].at - START < timedelta(minutes=33), "within stabilization.up and a few looks"
    assert toy.queued == 0


def test_a_closed_loop_by_night_moves_up_and_its_end_moves_back():
    """128 clients per replica wait for answers: arrivals equal what is served, only the queue shows it."""
    toy = live(5, lambda hour: 4.0 if hour < 0.5 or hour > 2.5 else 128.0, closed=True)
    assert directions(toy) == [Mode.BATCH] * 4 + [Mode.MTP] * 4


@pytest.mark.parametrize("share", [0.76, 0.85, 0.96])
@pytest.mark.parametrize("mix", [ALL_MTP, Mix(mtp=2, batch=2), ALL_BATCH])
def test_between_the_limits_every_mix_stays(share, mix):
    """Slowly up, so that the fleet does not start with the rush of an empty one."""
    toy = live(2, lambda hour: share * min(1.0, 0.7 + hour), mix=mix)
    assert toy.flips == []


def test_short_bursts_move_nothing():
    toy = live(3, lambda hour: 1.5 if (hour * 60) % 20 < 0.5 else 0.5)
    assert toy.flips == []


def test_a_day_in_minutes():
    """Everything compressed about thirtyfold, as a demonstration does: the same rule, other durations."""
    policy = {"stabilization": {"up": "3s", "down": "10s"}, "minDwell": "15s", "maxFlipsPerHour": 120}
    toy = ToyFleet(spec(policy=policy), [Mode.MTP] * 4, flip_seconds=8.0, window_seconds=10.0, scrape_seconds=2.0)
    for second in range(0, 420, 2):
        toy.tick(4 * MTP_CAPACITY * (0.4 if second < 60 or second > 220 else 1.25), 2.0)
    assert directions(toy) == [Mode.BATCH] * 4 + [Mode.MTP] * 4
    assert timedelta(seconds=60) < toy.flips[0].at - START < timedelta(seconds=90)
    assert toy.mix == ALL_MTP


def test_a_load_that_swings_across_both_limits_stays_within_the_budget():
    toy = live(6, lambda hour: 1.3 if (hour * 60) % 40 < 20 else 0.3)
    assert len(toy.flips) <= 4 * 6
    up = [flip for flip in toy.flips if flip.to is Mode.BATCH]
    assert up
