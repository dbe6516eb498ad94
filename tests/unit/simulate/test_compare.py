"""Comparisons: what they are measured by, their table, their JSON and their plot."""

from __future__ import annotations

import json

import pytest

from mtpilot.simulate import catalogue
from mtpilot.simulate.compare import Comparison, bound, compare
from mtpilot.simulate.report import document, table
from tests.unit.simulate.fleets import PAIR, closed, opened, site

NAMES = ("always_mtp", "always_batch", "predictive")
OPEN = opened([50.0] * 30 + [260.0] * 30)
CLOSED = closed([8.0] * 20 + [80.0] * 40)


def compared(load, names=NAMES, **options) -> Comparison:
    return compare(site(), load, catalogue.calibration("pair", PAIR), names, **options)


def test_an_open_load_is_measured_by_the_cheapest_run():
    found = compared(OPEN)
    assert [score.policy for score in found.scores] == [*NAMES, "optimum"]
    ratios = {score.policy: found.ratio(score) for score in found.scores}
    assert ratios["optimum"] == 1.0
    assert all(ratio is not None and ratio >= 1.0 for ratio in ratios.values())


def test_a_closed_load_is_measured_by_the_best_mix_at_each_moment():
    assert bound(site(), CLOSED).tolist() == [80.0] * 20 + [320.0] * 40
    found = compared(CLOSED)
    assert [score.policy for score in found.scores] == list(NAMES)
    assert found.reference == pytest.approx((20 * 80 + 40 * 320) * 60)
    ratios = [found.ratio(score) for score in found.scores]
    assert all(ratio is not None and 0 < ratio <= 1 for ratio in ratios)


def test_nothing_asked_for_has_no_ratio():
    found = compared(opened([0.0] * 5), names=("always_mtp",))
    assert [found.ratio(score) for score in found.scores] == [None, None]


def test_the_table_has_a_row_for_each_policy_the_best_first():
    made = table(compared(OPEN))
    assert made.row_count == 4
    assert next(iter(made.columns[0].cells)) == "optimum"
    assert table(compared(CLOSED)).row_count == 3


@pytest.mark.parametrize("load", [OPEN, CLOSED])
def test_the_document_is_plain_json(load):
    found = compared(load, explain=True)
    made = json.loads(json.dumps(document(found, series=True)))
    assert made["load"]["kind"] == ("Closed" if load.closed else "Open")
    assert set(made["policies"]) == {score.policy for score in found.scores}
    predictive = made["policies"]["predictive"]
    assert len(predictive["series"]["queued"]) == load.minutes
    assert predictive["flips"] == len(predictive["moves"])
    assert all(move["to"] in ("mtp", "batch") and move["why"] for move in predictive["moves"])
    assert "series" not in document(found)["policies"]["predictive"]


@pytest.mark.parametrize("load", [OPEN, CLOSED])
def test_the_plot_is_a_picture(load):
    from mtpilot.drawing import png
    from mtpilot.simulate.plot import comparison

    assert png(comparison(compared(load))).startswith(b"\x89PNG")
