"""What must hold of the offline optimum on any fleet and load."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.simulate import catalogue, optimum
from mtpilot.simulate.compare import compare
from mtpilot.simulate.driver import Site
from mtpilot.simulate.loads import Load
from tests.examples import examples

TOKENS = 500.0
# The program's grid makes its schedule nearly the best one; what it may miss is less than this share.
MISSED = 2e-3


def _curve(first: float, slots: int, bend: float) -> ThroughputCurve:
    levels = [level for level in (1, 2, 4, 8, 16, 32) if level < slots] + [slots]
    return ThroughputCurve(concurrency=tuple(map(float, levels)), tokens_per_second=tuple(first * level**bend for level in levels))


pairs = st.builds(
    CurvePair,
    mtp=st.builds(_curve, st.floats(60, 150), st.integers(3, 24), st.floats(0.5, 0.9)),
    batch=st.builds(_curve, st.floats(40, 110), st.integers(8, 64), st.floats(0.6, 0.95)),
)
shapes = st.lists(st.tuples(st.integers(1, 20), st.floats(0, 1.4)), min_size=2, max_size=6)


def load_on(pair: CurvePair, shape: Sequence[tuple[int, float]], replicas: int) -> Load:
    """Steps of (minutes, share of the all-mtp capacity)."""
    capacity = replicas * pair.mtp.tokens_per_second[-1]
    values = np.concatenate([np.full(minutes, share * capacity) for minutes, share in shape])
    return Load(name="steps", values=values, output_tokens=TOKENS)


def cost(pair: CurvePair, load: Load, *, replicas: int, flip_minutes: int) -> float:
    [best] = optimum.solve([pair], [load], replicas=replicas, flip_minutes=flip_minutes)
    return best.cost


@given(pair=pairs, shape=shapes, replicas=st.integers(1, 3), flip_minutes=st.integers(1, 5))
@examples(10)
def test_more_replicas_never_raise_it(pair: CurvePair, shape: list[tuple[int, float]], replicas: int, flip_minutes: int):
    load = load_on(pair, shape, replicas)
    fewer, more = (cost(pair, load, replicas=count, flip_minutes=flip_minutes) for count in (replicas, replicas + 1))
    assert more <= fewer * (1 + MISSED)


@given(pair=pairs, shape=shapes, replicas=st.integers(1, 3), flip_minutes=st.integers(2, 6))
@examples(10)
def test_faster_flips_never_raise_it(pair: CurvePair, shape: list[tuple[int, float]], replicas: int, flip_minutes: int):
    load = load_on(pair, shape, replicas)
    slower, faster = (cost(pair, load, replicas=replicas, flip_minutes=minutes) for minutes in (flip_minutes, flip_minutes - 1))
    assert faster <= slower * (1 + MISSED)


@given(pair=pairs, shape=shapes, replicas=st.integers(1, 3), factor=st.floats(0.2, 5))
@examples(10)
def test_load_curves_and_lengths_scaled_together_change_nothing(
    pair: CurvePair, shape: list[tuple[int, float]], replicas: int, factor: float
):
    """Requests of twice the tokens on replicas of twice the speed are the same requests."""
    load = load_on(pair, shape, replicas)
    faster = CurvePair(mtp=pair.mtp.scaled(factor), batch=pair.batch.scaled(factor))
    longer = Load(name="longer", values=load.values * factor, output_tokens=TOKENS * factor)
    before = cost(pair, load, replicas=replicas, flip_minutes=3)
    assert abs(cost(faster, longer, replicas=replicas, flip_minutes=3) - before) <= MISSED * max(before, 1.0)


@given(pair=pairs, shape=shapes, replicas=st.integers(1, 3), flip_minutes=st.integers(1, 5))
@examples(8)
def test_it_is_never_above_any_policy(pair: CurvePair, shape: list[tuple[int, float]], replicas: int, flip_minutes: int):
    load = load_on(pair, shape, replicas)
    site = Site(curves=pair, replicas=replicas, flip_minutes=flip_minutes, output_tokens=TOKENS)
    found = compare(site, load, catalogue.calibration("pair", pair), catalogue.NAMES)
    assert all(score.cost is not None and score.cost >= found.reference for score in found.scores)
    own = next(score.cost for score in found.scores if score.policy == catalogue.OPTIMUM)
    of_the_two_modes = [score.cost or 0.0 for score in found.scores if not score.policy.startswith("adaptive")]
    assert own is not None
    assert own <= min(of_the_two_modes) * (1 + MISSED)
