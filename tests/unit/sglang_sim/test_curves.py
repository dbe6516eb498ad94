"""Curves: what a step lasts, from built-in points and from files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_sim import curves

QWEN = curves.load("qwen3.5-122b-4xrtxpro6000")


def test_the_built_in_curves_meet_the_published_figures():
    assert QWEN.modes["mtp"].tokens_per_second(1) == pytest.approx(121.5)
    assert QWEN.modes["mtp"].tokens_per_second(24) == pytest.approx(1699, rel=0.01)
    assert QWEN.modes["batch"].tokens_per_second(68) == pytest.approx(2793, rel=0.01)
    assert (QWEN.modes["mtp"].slots, QWEN.modes["batch"].slots) == (24, 68)
    omlx = curves.load("omlx-qwen3.8-27b").modes
    assert [omlx["mtp"].tokens_per_second(c) for c in (1, 4)] == [45.69, 69.34]
    assert [omlx["batch"].tokens_per_second(c) for c in (1, 4)] == [35.98, 107.4]


def test_a_step_yields_the_accept_length_for_every_row():
    curve = QWEN.modes["mtp"]
    assert 24 * curve.accept_length / curve.step_seconds(24) == pytest.approx(curve.tokens_per_second(24))


@given(
    rates=st.lists(st.floats(10, 5000), min_size=2, max_size=6, unique=True),
    where=st.tuples(st.floats(0.5, 80), st.floats(0.5, 80)),
)
def test_interpolation_is_monotone_where_the_points_are(rates, where):
    points = tuple((2.0**index, rate) for index, rate in enumerate(sorted(rates)))
    curve = curves.ModeCurve(points=points, slots=8)
    low, high = sorted(where)
    assert curve.tokens_per_second(low) <= curve.tokens_per_second(high) * (1 + 1e-9)
    for concurrency, rate in points:
        assert curve.tokens_per_second(concurrency) == pytest.approx(rate)


def test_a_power_law_is_exact_between_its_points():
    assert QWEN.modes["batch"].tokens_per_second(50) == pytest.approx(108 * 50**0.771, rel=1e-6)


def test_json_and_csv_files_say_the_same(tmp_path):
    document = {
        "modes": {"mtp": {"points": [[1, 50], [4, 90]], "slots": 4, "accept_length": 1.8}, "batch": {"points": [[1, 40], [8, 200]]}}
    }
    as_json, as_csv = tmp_path / "c.json", tmp_path / "c.csv"
    as_json.write_text(json.dumps(document))
    as_csv.write_text(
        "mode,concurrency,output_tokens_per_second,slots,accept_length\nmtp,1,50,4,1.8\nmtp,4,90,,\nbatch,1,40,8,\nbatch,8,200,,\n"
    )
    assert curves.load(str(as_json)).modes == curves.load(str(as_csv)).modes
    assert curves.load(str(as_json)).modes["batch"].slots == 8


@pytest.mark.parametrize(
    "document",
    [
        {"modes": {"fast": {"points": [[1, 2]]}}},
        {"modes": {"mtp": {"points": []}}},
        {"modes": {"mtp": {"points": [[2, 5], [1, 6]]}}},
        {"modes": {"mtp": {"points": [[1, 0]]}}},
        {"modes": {"mtp": {"points": [[1, 5]], "accept_length": 0.5}}},
    ],
)
def test_a_curve_that_makes_no_sense_is_refused(document):
    with pytest.raises((ValueError, IndexError)):
        curves.from_document(document)


def test_an_unknown_curve_names_the_built_in_ones():
    with pytest.raises(ValueError, match=r"omlx-qwen3.8-27b"):
        curves.load("nowhere")
