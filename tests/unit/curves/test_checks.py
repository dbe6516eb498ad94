"""Problems are the API server's, warnings are the measurement's."""

import pytest
from pydantic import ValidationError

from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.curves.checks import problems, warnings
from tests.sample_files import Sample, samples
from tests.unit.curves.builders import curve, fitted, mtp_curve, power, spec


def of_profiles(verdict: str) -> list[Sample]:
    return [sample for sample in samples(verdict) if sample.kind == "ThroughputProfile"]


@pytest.mark.parametrize("sample", of_profiles("accept"), ids=str)
def test_an_accepted_sample_has_no_problem(sample: Sample):
    assert problems(ThroughputProfileSpec.model_validate(sample.document["spec"])) == []


@pytest.mark.parametrize("sample", of_profiles("reject"), ids=str)
def test_a_rejected_sample_has_the_problem_that_the_server_names(sample: Sample):
    try:
        found = problems(ThroughputProfileSpec.model_validate(sample.document["spec"]))
    except ValidationError as error:
        found = [str(error)]
    assert any(sample.expect in problem for problem in found), found
    assert all(problem.startswith("spec.") for problem in found)


def test_what_stands_twice_is_a_problem():
    twice = spec(curve(), curve(((1, 1.0), (1, 2.0))))
    assert problems(twice) == [
        "spec.curves[1].points: concurrency 1 stands twice",
        "spec.curves[1]: mode batch with contextTokens 1000 stands twice",
    ]


@pytest.mark.parametrize("text", ["yesterday", "2026-11-20T09:00:00"])
def test_a_time_without_its_zone_is_a_problem(text):
    found = problems(spec(provenance={"source": "a test", "measuredAt": text}))
    assert found == [f"spec.provenance.measuredAt: no time like 2026-11-20T09:00:00Z: {text}"]


def only(found: list[str], words: str) -> str:
    """The one warning with these words."""
    matching = [text for text in found if words in text]
    assert len(matching) == 1, found
    return matching[0]


def test_a_good_profile_has_no_warning():
    assert warnings(fitted()) == []


def test_edited_points_are_told():
    profile = fitted()
    edited = profile.model_copy(update={"curves": spec(mtp_curve(power(150, 0.83, 24)), curve()).curves})
    assert "does not count" in only(warnings(edited), "made from other points")


def test_an_accept_length_at_its_bound_is_an_alarm():
    found = warnings(fitted(mtp_curve(acceptLength="2.0"), curve(), draft_tokens=1))
    assert "acceptLength 2 is its bound, 1 drafted tokens and the bonus token" in only(found, "upper bound")
    assert warnings(fitted(mtp_curve(acceptLength="2.0"), curve(), draft_tokens=2)) == []


def test_a_missing_accept_length_is_told_once_for_all_contexts():
    curves = [made(power(100, 0.8, 24), context=context) for context in (1000, 4000) for made in (mtp_curve, curve)]
    for one in curves:
        one.pop("acceptLength", None)
    assert warnings(spec(*curves)) == [
        "mtp at 1000, 4000 tokens of context: acceptLength is missing, so the curve cannot follow the live acceptance"
    ]


def test_a_calibration_needs_a_level_at_64_or_at_the_slots():
    assert "the highest level is 24 of 128 slots" in only(
        warnings(spec(mtp_curve(), curve(power(108, 0.771, 24), slots=128))), "highest level"
    )
    assert warnings(spec(mtp_curve(), curve(((1, 100.0), (8, 500.0), (64, 2000.0)), slots=128))) == []


def test_a_rate_that_falls_is_told_with_the_remedy():
    found = warnings(spec(mtp_curve(((1, 100.0), (32, 1325.0), (64, 645.0))), curve()))
    assert "--max-running-requests" in only(found, "tok/s falls from 1325 to 645 at 64 requests")


def test_few_levels_lonely_curves_and_made_up_text_are_told():
    found = warnings(spec(mtp_curve(((1, 100.0), (24, 900.0))), curve(), curve(context=4000), acceptance="Synthetic"))
    only(found, "2 levels, fewer than 3")
    assert only(found, "no curve of the other mode").startswith("batch at 4000 tokens")
    only(found, "acceptance is Synthetic")
