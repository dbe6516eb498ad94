"""What holds for the rule with a profile, on a fleet that behaves as the profile says, and on one that does not quite."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.model.decision import Mix
from tests.examples import examples
from tests.property.policy.fluid_world import FREE, FluidWorld
from tests.property.policy.toy_fleet import MTP_CAPACITY, ToyFleet
from tests.unit.policy.builders import PAIR, calibration, modes_of, spec

QUICK = examples(12)
SLOW = examples(5)
WEEK_MINUTES = 7 * 24 * 60


def day(minute: float, low: float = 0.25, high: float = 1.25) -> float:
    """Share of the mtp capacity: lowest at midnight, highest at noon."""
    return (low + high) / 2 - (high - low) / 2 * math.cos(minute / 720 * math.pi)


@st.composite
def curves(draw: st.DrawFn, slots: Sequence[int] = (4, 8, 16, 32)) -> ThroughputCurve:
    """Rising and concave, from 1 request to its slots."""
    most = draw(st.sampled_from(slots))
    levels = sorted({1, max(most // 4, 1), max(most // 2, 1), most})
    first, exponent = draw(st.floats(20, 200)), draw(st.floats(0.4, 0.98))
    return ThroughputCurve(concurrency=tuple(map(float, levels)), tokens_per_second=tuple(first * level**exponent for level in levels))


@st.composite
def never_crossing(draw: st.DrawFn) -> tuple[CurvePair, Mode]:
    """One mode is better at every level and has as many slots."""
    better = draw(curves())
    worse = better.scaled(draw(st.floats(0.5, 0.97))).with_slots(draw(st.integers(1, int(better.slots))))
    if draw(st.booleans()):
        return CurvePair(mtp=better, batch=worse, mtp_error=0.0, batch_error=0.0), Mode.MTP
    return CurvePair(mtp=worse, batch=better, mtp_error=0.0, batch_error=0.0), Mode.BATCH


loads = st.lists(st.floats(0, 1.6), min_size=2, max_size=4)


@QUICK
@given(never_crossing(), st.integers(1, 3), loads, st.booleans())
def test_a_pair_that_never_crosses_is_never_flipped(pair_and_mode, replicas, history, closed):
    pair, better = pair_and_mode
    world = FluidWorld(
        replicas=replicas,
        batch=0 if better is Mode.MTP else replicas,
        truth=pair,
        profile=calibration(pair),
        closed=closed,
        tick_seconds=120,
    )
    table = pair.of(better)
    for share in history:
        world.live(share * replicas * (table.slots if closed else table.rate(table.slots)), 60)
    assert world.moves == []


@QUICK
@given(st.sampled_from([Verdict.MTP_ONLY, Verdict.BATCH_ONLY]), loads, st.booleans())
def test_a_verdict_is_never_left(verdict, history, closed):
    away = Mode.BATCH if verdict is Verdict.MTP_ONLY else Mode.MTP
    world = FluidWorld(batch=1, profile=calibration(verdict=verdict), closed=closed, tick_seconds=120)
    for share in history:
        world.live(share * (100 if closed else world.mtp_capacity), 60)
    assert away not in {to for _, to in world.moves}


@pytest.mark.parametrize("share", [0.9])
def test_a_week_of_noisy_constant_load_below_the_crossover_moves_nothing(share):
    world = FluidWorld(seed=1, tick_seconds=240, policy={})
    world.live(share * world.mtp_capacity, WEEK_MINUTES)
    assert world.moves == []


def test_a_week_above_it_goes_over_once():
    world = FluidWorld(seed=2, tick_seconds=240, policy={})
    world.live(1.2 * world.mtp_capacity, WEEK_MINUTES)
    assert [to for _, to in world.moves] == [Mode.BATCH, Mode.BATCH]
    assert world.moves[-1][0] - world.moves[0][0] < (world.now - world.moves[0][0]) / 100


@QUICK
@given(st.floats(0, 1.6), st.integers(0, 3), st.booleans(), st.integers(0, 100))
def test_constant_load_comes_to_rest(share, batch, closed, seed):
    """At most there, and once back where the noise of the first minutes was taken for an overload."""
    world = FluidWorld(replicas=3, batch=batch, closed=closed, seed=seed, tick_seconds=120)
    world.live(share * (3 * 40 if closed else world.mtp_capacity), 240)
    turns = sum(earlier is not later for (_, earlier), (_, later) in pairwise(world.moves))
    assert turns <= 1
    before = len(world.moves)
    world.live(share * (3 * 40 if closed else world.mtp_capacity), 240)
    assert len(world.moves) - before <= 1


@SLOW
@given(st.floats(0.01, 50), st.floats(0.3, 1.2), st.integers(0, 100))
def test_scaling_load_and_curves_together_changes_nothing(factor, peak, seed):
    """Tokens of another size: rates, demand and the length of an answer grow together."""
    pair = CurvePair(mtp=PAIR.mtp.scaled(factor), batch=PAIR.batch.scaled(factor), accept_length=2.0, mtp_error=0.0, batch_error=0.0)
    one = FluidWorld(seed=seed)
    other = FluidWorld(seed=seed, truth=pair, profile=calibration(pair), output_tokens=1000.0 * factor)
    for minute in range(0, 720, 2):
        share = day(minute, high=peak)
        one.tick(share * one.mtp_capacity)
        other.tick(share * other.mtp_capacity)
    assert one.moves == other.moves


FORGOTTEN_AT = (100, 300, 480, 600, 720, 960, 1020, 1200)


def watched(world: FluidWorld, minute: int) -> Mix:
    """What is recommended to a fleet that somebody else moves, all at once, when the load crosses the mtp capacity."""
    world.batch = 2 if day(minute - 30) > 1 else 0
    world.tick(day(minute) * world.mtp_capacity)
    assert world.decision is not None
    return world.decision.recommended


@cache
def watched_day() -> tuple[list[Mix], dict[int, FluidWorld]]:
    """What is recommended at each minute of a day, and the fleet as it is at each minute of FORGOTTEN_AT."""
    world = FluidWorld(policy=FREE | {"mode": "RecommendOnly"})
    recommended: list[Mix] = []
    then: dict[int, FluidWorld] = {}
    for minute in range(1440):
        if minute in FORGOTTEN_AT:
            then[minute] = replace(world, moves=[])
        recommended.append(watched(world, minute))
    assert world.moves == []
    return recommended, then


@pytest.mark.parametrize("forgotten_at", FORGOTTEN_AT)
def test_a_lost_state_comes_to_the_same_decisions_within_half_an_hour(forgotten_at):
    recommended, then = watched_day()
    world = replace(then[forgotten_at], state=PolicyState(), moves=[])
    differ = [minute for minute in range(forgotten_at, 1440) if watched(world, minute) != recommended[minute]]
    assert sum(minute >= forgotten_at + 30 for minute in differ) <= 2, "nothing but a minute earlier or later"


# Four mtp slots and sixteen batch ones, as in the third founding report: by night batch costs twice as much, by day mtp does.
SLOT_BOUND = CurvePair(
    mtp=ThroughputCurve(concurrency=(1, 2, 4), tokens_per_second=(70, 126, 234)),
    batch=ThroughputCurve(concurrency=(1, 2, 4, 8, 16), tokens_per_second=tuple(26.7 * n**0.896 for n in (1, 2, 4, 8, 16))),
    mtp_error=0.0,
    batch_error=0.0,
)


@pytest.mark.parametrize(("replicas", "share"), [(1, 1.0), (4, 0.85)])
def test_three_days_cost_less_than_the_better_single_mode(replicas, share):
    """A rule that forgets that nights are long stays where the first peak brought it."""

    def lived(batch: int, *, decides: bool) -> FluidWorld:
        world = FluidWorld(
            replicas=replicas, batch=batch, truth=SLOT_BOUND, profile=calibration(SLOT_BOUND), seed=3, tick_seconds=120, policy={}
        )
        for minute in range(0, 3 * 1440, 2):
            world.tick(day(minute, 0.1, 1.15) * world.mtp_capacity, decides=decides)
        return world

    predicted = lived(0, decides=True)
    better = min(lived(batch, decides=False).request_minutes for batch in (0, replicas))
    assert predicted.request_minutes < share * better
    assert sum(earlier is not later for (_, earlier), (_, later) in pairwise(predicted.moves)) <= 6


def test_ticks_of_ten_seconds_and_of_a_minute_move_at_the_same_time():
    def moved(tick_seconds: float) -> list[tuple[float, Mode]]:
        world = FluidWorld(replicas=2, tick_seconds=tick_seconds, policy=FREE | {"stabilization": {"up": "3m", "down": "3m"}})
        for i in range(round(6 * 3600 / tick_seconds)):
            world.tick(day(i * tick_seconds / 60 + 360) * world.mtp_capacity)
        return [((at - world.now).total_seconds(), to) for at, to in world.moves]

    often, seldom = moved(10), moved(60)
    assert [to for _, to in often] == [to for _, to in seldom]
    assert len(often) > 0
    assert all(abs(a - b) <= 120 for (a, _), (b, _) in zip(often, seldom, strict=True))


def test_a_closed_loop_and_an_open_one_that_look_alike_are_decided_differently():
    """Both keep the mtp replicas full for most of the time; behind one fleet 400 clients wait for their answers."""
    closed, opened = FluidWorld(replicas=4, closed=True), FluidWorld(replicas=4, seed=1)
    for _ in range(240):
        closed.tick(512)
        opened.tick(0.96 * opened.mtp_capacity)
    assert [to for _, to in closed.moves] == [Mode.BATCH] * 4
    assert opened.moves == []
    assert float(closed.state.closed_weight or 0) > 0.8
    assert float(opened.state.closed_weight or 0) < 0.4


@pytest.mark.parametrize("level", [0.85, 1.15])
def test_a_fleet_that_is_slower_or_faster_than_its_profile_is_not_moved_about(level):
    truth = replace(PAIR, mtp=PAIR.mtp.scaled(level), batch=PAIR.batch.scaled(level))
    world = FluidWorld(truth=truth, seed=4, policy={})
    for minute in range(1440):
        world.tick(day(minute) * world.mtp_capacity)
    assert 0 < len(world.moves) <= 4
    assert world.queued == 0


def test_a_gateway_that_shares_requests_out_evenly_is_no_reason_to_flap():
    """Least connections, while the rule's fluid fills replicas by best marginal rate; samples of whole requests every 40 s."""
    toy = ToyFleet(spec(), list(modes_of(Mix(mtp=4, batch=0))), profile=calibration(), explain=False)
    for i in range(24 * 90):
        toy.tick(day(i * 40 / 60) * 4 * MTP_CAPACITY, 40)
    turns = sum(earlier.to is not later.to for earlier, later in pairwise(toy.flips))
    assert turns <= 1
    assert toy.flips
