"""Rows of measured batches become curves."""

from collections.abc import Mapping

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.curves.measurements import (
    InvalidMeasurement,
    Measured,
    curves_of,
    measurements_of,
    measurements_of_profile,
    measurements_of_table,
)
from tests.unit.curves.builders import curve, mtp_curve, spec
from tests.unit.curves.test_table import row as table_row


def row(**changes: object) -> dict[str, object]:
    return {"mode": "batch", "concurrency": "1", "context_tokens": "1000", "output_tokens_per_second": "100", "slots": "8"} | changes


def made(*rows: Mapping[str, object]) -> Measured:
    return curves_of(measurements_of(rows, 500))


def test_levels_stand_by_mode_context_and_rising_concurrency():
    found = made(row(concurrency="4"), row(), row(mode="mtp", accept_length="1.9"), row(context_tokens="64", mode="mtp")).curves
    assert [(one.mode, one.context_tokens, [point.concurrency for point in one.points]) for one in found] == [
        (Mode.MTP, 64, [1]),
        (Mode.MTP, 1000, [1]),
        (Mode.BATCH, 1000, [1, 4]),
    ]


def test_repeats_are_averaged_and_their_spread_is_the_noise():
    found = made(row(output_tokens_per_second="90"), row(output_tokens_per_second="110"), row(concurrency="2"))
    assert found.curves[0].points[0].output_tokens_per_second == "100"
    assert found.repeat_noise == pytest.approx(0.1414, abs=1e-3)
    assert made(row(), row(concurrency="2")).repeat_noise == 0


def test_json_values_and_csv_texts_are_the_same():
    as_json = row(concurrency=1, context_tokens=1000, output_tokens_per_second=100.0, slots=8)
    assert made(as_json) == made(row())


def test_defaults_are_the_given_context_and_the_highest_level():
    found = made(
        {"mode": "batch", "concurrency": 4, "output_tokens_per_second": 9},
        {"mode": "batch", "concurrency": 2, "output_tokens_per_second": 8},
    )
    assert (found.curves[0].context_tokens, found.curves[0].slots) == (500, 4)


def test_accept_lengths_stand_on_the_curve_and_on_the_points_where_they_differ():
    mtp = [row(mode="mtp", concurrency=level, accept_length=length) for level, length in (("1", "1.8"), ("2", "2.0"))]
    found = made(*mtp).curves[0]
    assert found.accept_length == "1.9"
    assert [point.accept_length for point in found.points] == ["1.8", "2"]
    same = made(mtp[0], row(mode="mtp", concurrency="2", accept_length="1.8")).curves[0]
    assert [point.accept_length for point in same.points] == [None, None]
    assert made(row(accept_length="1.8")).curves[0].accept_length is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "turbo"}, "row 2: mode must be mtp or batch, it is 'turbo'"),
        ({"concurrency": ""}, "row 2: concurrency is missing"),
        ({"concurrency": "1.5"}, "row 2: concurrency must be a whole number, it is 1.5"),
        ({"output_tokens_per_second": "fast"}, "row 2: output_tokens_per_second is no number: 'fast'"),
        ({"output_tokens_per_second": "0"}, "row 2: output_tokens_per_second must be above 0 and finite, it is 0"),
        ({"output_tokens_per_second": "nan"}, "row 2: output_tokens_per_second must be above 0 and finite, it is nan"),
        ({"slots": "inf"}, "row 2: slots must be above 0 and finite, it is inf"),
    ],
)
def test_a_row_that_is_no_measurement_is_named(changes, message):
    with pytest.raises(InvalidMeasurement) as error:
        made(row(), row(**changes))
    assert str(error.value) == message


def test_slots_that_differ_are_refused():
    with pytest.raises(InvalidMeasurement, match="slots of batch at 1000 tokens of context differ: 8, 9"):
        made(row(), row(concurrency="2", slots="9"))


def test_a_profiles_points_are_its_measurements():
    profile = spec(mtp_curve(), curve())
    assert curves_of(measurements_of_profile(profile)).curves == profile.curves


def wide(level: int, **changes: str) -> dict[str, str]:
    empty = dict.fromkeys(("per_req_base", "per_req_mtp", "slots_base", "slots_mtp"), "")
    return table_row(level) | empty | changes


def test_a_wide_table_gives_both_modes():
    found = curves_of(measurements_of_table([wide(1, accept_len="1.9"), wide(2)], "p")).curves
    assert [(one.mode, one.slots, one.accept_length) for one in found] == [(Mode.MTP, 2, "1.9"), (Mode.BATCH, 2, None)]


def test_slots_are_what_ran_and_at_most_what_the_table_tells():
    rows = [wide(1), wide(128, slots_base="68 (derived)", slots_mtp="24 of 48")]
    mtp, batch = curves_of(measurements_of_table(rows, "p")).curves
    assert (mtp.slots, batch.slots) == (24, 68)
    assert mtp.points[-1].concurrency == 128
    queued = [wide(1), wide(128, notes="MTP queued: queue_fraction=1.0, avg_running=117.5")]
    assert curves_of(measurements_of_table(queued, "p")).curves[0].slots == 117


def test_contexts_can_be_chosen_and_none_is_one_token():
    rows = [wide(1, context_tokens="0"), wide(1, context_tokens="16384")]
    assert {one.context_tokens for one in measurements_of_table(rows, "p")} == {1, 16_384}
    assert {one.context_tokens for one in measurements_of_table(rows, "p", [0])} == {1}


def test_a_pair_without_one_mode_is_refused():
    with pytest.raises(InvalidMeasurement, match="pair p has no measured row in mode mtp"):
        measurements_of_table([wide(1, tok_s_mtp="")], "p")
