"""The fit on the public figures: how well it meets measured points, and points that it has not seen."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Curve, FitMethod, Verdict
from mtpilot.curves.fit import fit_step_time
from mtpilot.curves.fit_profile import fit_curves, points_of
from mtpilot.curves.measurements import curves_of, measurements_of, measurements_of_table
from mtpilot.curves.of_profile import conclusion_at
from mtpilot.curves.step_time import StepTime
from mtpilot.curves.table import pairs_of
from tests.unit.curves.builders import spec

DATA = Path(__file__).parents[3] / "e2e" / "data"
CONTEXTS = (16_384, 32_768, 65_536, 131_072)
PAIR_397B = "vllm-q35-397b-lukealonso_nvfp4"
EXPERTS = {"experts": 512, "active_experts": 10}


@cache
def rows() -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / "mtp_curves.csv").read_text().splitlines()))


def curves(pair_id: str, contexts: tuple[int, ...] = CONTEXTS, levels: tuple[int, ...] | None = None) -> tuple[Curve, ...]:
    found = measurements_of_table(rows(), pair_id, contexts)
    return curves_of([one for one in found if levels is None or one.concurrency in levels]).curves


def left_out(pair_id: str, model: StepTime, levels: tuple[int, ...]) -> float:
    """Mean absolute error of a model at the levels that are not among these."""
    points = points_of(curves(pair_id), 2.0)
    offered = np.array([point.concurrency for curve in curves(pair_id) for point in curve.points])
    modes = [Mode.MTP if flag else Mode.BATCH for flag in points.mtp]
    inputs = zip(modes, points.requests, points.context_tokens, points.accept_length, strict=True)
    predicted = np.array([model.tokens_per_second(mode, np.array([c]), s, a)[0] for mode, c, s, a in inputs])
    unseen = ~np.isin(offered, levels)
    return float(np.mean(np.abs(predicted / points.tokens_per_second - 1)[unseen]))


@pytest.mark.parametrize("pair_id", [PAIR_397B, "vllm-q35-397b-nvidia_nvfp4"])
def test_all_points_of_a_moe_over_four_contexts_are_met_within_4_percent(pair_id):
    found = fit_curves(curves(pair_id), draft_tokens=2, **EXPERTS).fit
    assert found.method is FitMethod.STEP_TIME
    assert float(found.mape) <= 0.04


@pytest.mark.parametrize("pair_id", [PAIR_397B, "vllm-q35-397b-nvidia_nvfp4"])
def test_from_three_levels_the_others_are_met_within_6_percent(pair_id):
    found = fit_step_time(points_of(curves(pair_id, levels=(1, 16, 64)), 2.0), draft_tokens=2, **EXPERTS)
    assert found is not None
    assert left_out(pair_id, found.model, (1, 16, 64)) <= 0.06


def test_without_a_high_level_the_others_are_missed_by_more():
    low, high = (
        fit_step_time(points_of(curves(PAIR_397B, levels=levels), 2.0), draft_tokens=2, **EXPERTS) for levels in ((1, 8, 16), (1, 16, 64))
    )
    assert low is not None
    assert high is not None
    assert left_out(PAIR_397B, low.model, (1, 8, 16)) > 1.5 * left_out(PAIR_397B, high.model, (1, 16, 64))


def test_a_moe_fitted_as_a_dense_model_is_met_three_times_worse():
    dense = fit_step_time(points_of(curves(PAIR_397B), 2.0), draft_tokens=2, experts=None, active_experts=None)
    assert dense is not None
    assert dense.mape > 0.08


def test_the_accept_length_that_is_assumed_hardly_moves_the_curves():
    points = points_of(curves(PAIR_397B), 2.0)
    mapes = []
    for assumed in (1.6, 2.0, 2.6):
        found = fit_step_time(points_of(curves(PAIR_397B), assumed), draft_tokens=2, **EXPERTS)
        assert found is not None
        mapes.append(found.mape)
    assert max(mapes) - min(mapes) < 0.015
    assert len(points.mtp) == 64


@pytest.mark.parametrize("contexts", [(), CONTEXTS, (131_072,)])
def test_a_pair_that_no_step_time_explains_falls_back_to_its_table(contexts):
    outcome = fit_curves(curves("vllm-q35-397b-awq", contexts), draft_tokens=2, **EXPERTS)
    assert outcome.fit.method is FitMethod.INTERPOLATION
    assert outcome.fit.parameters is None
    assert "more than 10%" in outcome.why_interpolation


def test_the_122b_curves_cross_where_mtp_has_no_slots_left():
    found = curves_of(measurements_of(csv.DictReader((DATA / "points" / "qwen3.5-122b.csv").read_text().splitlines()), 1000))
    outcome = fit_curves(found.curves, draft_tokens=1, experts=256, active_experts=8)
    profile = spec().model_copy(update={"curves": found.curves, "fit": outcome.fit})
    concluded = conclusion_at(profile, 1000)
    assert (concluded.verdict, concluded.bound, concluded.above) == (Verdict.FLIP, Bound.SLOTS, Mode.BATCH)
    assert concluded.crossover is not None
    assert concluded.low is not None
    assert concluded.high is not None
    assert 34 <= concluded.crossover <= 38
    assert 33 < concluded.low < concluded.crossover < concluded.high < 39
    assert concluded.probability_none == 0


def test_the_table_gives_the_pairs_with_four_levels_in_both_modes():
    found = pairs_of(rows())
    assert len(found) == 23
    assert {key.partition("@")[0] for key in found} >= {PAIR_397B, "sgl-q3-30b-a3b-4xh100", "omlx-q38-27b-m5u"}
    assert found["sgl-q3-30b-a3b-4xh100@unknown"].accept_length == pytest.approx(2.558, abs=1e-3)
