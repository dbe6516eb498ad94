"""The offline optimum: by hand where it can be seen, against every schedule where these can be counted, and as the driver's own cost."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.curves.curve import CurvePair
from mtpilot.simulate import optimum
from mtpilot.simulate.driver import drive
from mtpilot.simulate.loads import Load
from mtpilot.simulate.policies import Always
from tests.unit.simulate.fleets import PAIR, Script, curve, opened, site


def solved(load: Load, *, replicas: int = 1, flip_minutes: int = 1, pair: CurvePair = PAIR) -> optimum.Best:
    [best] = optimum.solve([pair], [load], replicas=replicas, flip_minutes=flip_minutes)
    return best


def test_a_low_load_is_served_in_mtp_and_a_high_one_in_batch():
    low, high = solved(opened([50.0] * 20)), solved(opened([150.0] * 20))
    assert (low.batch, high.batch) == (0, 1)
    assert not low.moves
    assert not high.moves
    assert (low.cost, high.cost) == pytest.approx((20 * 5.0, 20 * 37.5))


def test_it_moves_before_the_load_does():
    found = solved(opened([10.0] * 40 + [155.0] * 40), flip_minutes=3)
    assert found.batch == 0
    [(minute, to)] = found.moves
    assert to is Mode.BATCH
    assert minute < 40


@pytest.mark.parametrize("flip_minutes", [1, 2])
def test_no_schedule_of_a_short_load_is_cheaper(flip_minutes: int):
    load = opened([20.0, 90.0, 150.0, 160.0, 30.0, 0.0, 130.0])
    best = min(
        drive(site(replicas=1, flip_minutes=flip_minutes), load, Script(dict(enumerate(moves)), batch=start)).request_minutes
        for start in (0, 1)
        for moves in product((None, Mode.MTP, Mode.BATCH), repeat=load.minutes - 1)
    )
    assert solved(load, flip_minutes=flip_minutes).cost == pytest.approx(best)


def test_the_cost_is_that_of_the_schedule_on_the_replay():
    rng = np.random.default_rng(1)
    load = opened(rng.uniform(50, 600, 200))
    best = solved(load, replicas=3, flip_minutes=4)
    run = drive(site(replicas=3, flip_minutes=4), load, optimum.Foreseen(best))
    assert run.flips == len(best.moves) > 0
    assert run.request_minutes == pytest.approx(best.cost, rel=1e-9)


def test_many_fleets_at_once_are_as_each_alone():
    rng = np.random.default_rng(2)
    pairs = [PAIR, CurvePair(mtp=curve((1, 30), (10, 120)), batch=curve((2, 20), (20, 100), (40, 170)))]
    loads = [opened(rng.uniform(20, 300, 90)) for _ in pairs]
    together = optimum.solve(pairs, loads, replicas=2, flip_minutes=3)
    alone = [solved(load, replicas=2, flip_minutes=3, pair=pair) for pair, load in zip(pairs, loads, strict=True)]
    assert [best.cost for best in together] == pytest.approx([best.cost for best in alone])


def test_fixed_mixes_cost_what_driving_them_costs():
    load = opened(np.random.default_rng(3).uniform(50, 500, 120))
    costs, longest = optimum.fixed([PAIR], [load], [(0, 2), (2, 0)])
    for k, mode in enumerate((Mode.MTP, Mode.BATCH)):
        run = drive(site(), load, Always(mode))
        assert costs[0, k] == pytest.approx(run.request_minutes, rel=1e-9)
        assert longest[0, k] == pytest.approx(run.queued.max())


def test_progress_adds_up_to_the_load():
    told: list[int] = []
    optimum.solve([PAIR], [opened([10.0] * 450)], replicas=1, flip_minutes=1, progress=told.append)
    assert sum(told) == 450
