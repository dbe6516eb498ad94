"""The curves that decide, from a profile."""

import subprocess
import sys

import pytest

from mtpilot.curves.curve import InvalidCurve
from mtpilot.curves.of_profile import context_buckets, curve_pair, fit_in_force
from tests.unit.curves.builders import BATCH, curve, fitted, mtp_curve, power, spec


def test_without_a_fit_the_curve_goes_through_the_points_and_by_a_power_law_between():
    found, context = curve_pair(spec(), 1000)
    assert context == 1000
    for level, rate in BATCH:
        assert found.batch.rate(level) == pytest.approx(rate, rel=1e-4)
    assert found.batch.rate(40) == pytest.approx(108 * 40**0.771, rel=0.002)
    assert (found.mtp.slots, found.batch.slots, found.accept_length) == (24, 68, 1.8)
    assert found.mtp_error == found.batch_error == 0.03


def test_with_a_fit_the_curve_is_the_models():
    profile = fitted()
    assert profile.fit is not None
    assert profile.fit.method == "StepTime"
    found, _ = curve_pair(profile, 1000)
    worst = max(abs(found.batch.rate(level) / rate - 1) for level, rate in BATCH)
    assert 0.001 < worst < 0.25  # near the points, not through them
    assert len(found.batch.concurrency) <= 64
    assert found.batch_error == max(0.03, float(profile.fit.batch_error))


def test_a_fit_of_other_points_does_not_count():
    profile = fitted()
    edited = profile.model_copy(update={"curves": spec(mtp_curve(power(150, 0.83, 24)), curve()).curves})
    assert fit_in_force(profile) is not None
    assert fit_in_force(edited) is None
    found, _ = curve_pair(edited, 1000)
    assert found.mtp.rate(24) == pytest.approx(150 * 24**0.83, rel=1e-4)


def test_the_order_of_the_curves_does_not_spoil_the_fit():
    profile = fitted()
    assert fit_in_force(profile.model_copy(update={"curves": profile.curves[::-1]})) is not None


@pytest.mark.parametrize(("wanted", "bucket"), [(1, 1000), (1000, 1000), (3900, 1000), (4100, 16_000), (10**6, 16_000)])
def test_the_nearest_context_is_taken_by_ratio(wanted, bucket):
    both = [
        made(power(100 / (1 + context / 16_000), 0.8, 24), context=context) for context in (1000, 16_000) for made in (mtp_curve, curve)
    ]
    assert curve_pair(spec(*both), wanted)[1] == bucket


def stepped(context: int) -> tuple[tuple[int, float], ...]:
    """Points of a step that takes 10 ms, 0.2 ms for each request and 10 ns for each token of context."""
    return tuple((level, 1000 * level / (10 + 0.2 * level + 1e-5 * level * context)) for level in (1, 2, 4, 8, 16, 24))


def test_a_fit_over_contexts_gives_the_curve_of_the_very_context():
    both = [made(stepped(context), context=context) for context in (1000, 16_000) for made in (mtp_curve, curve)]
    profile = fitted(*both)
    assert profile.fit is not None
    assert profile.fit.method == "StepTime"
    rates = [curve_pair(profile, context)[0].batch.rate(24) for context in (500, 1000, 8000, 16_000, 64_000)]
    assert rates[0] == rates[1] > rates[2] > rates[3] == rates[4]
    assert rates[2] == pytest.approx(24_000 / (10 + 0.2 * 24 + 1e-5 * 24 * 8000), rel=0.01)


def test_only_contexts_with_both_modes_count():
    assert context_buckets(spec(mtp_curve(), curve(), curve(context=4000))) == (1000,)
    with pytest.raises(InvalidCurve, match=r"^spec\.curves: no contextTokens has a curve of both modes"):
        curve_pair(spec(curve()), 1000)


def test_levels_beyond_the_slots_are_what_the_slots_serve():
    beyond = mtp_curve(((1, 121.5), (128, 1635.0)), slots=24)
    found, _ = curve_pair(spec(beyond, curve()), 1000)
    assert found.mtp.slots == 24
    assert found.mtp.rate(24) == pytest.approx(1635)


def test_more_slots_than_were_measured_promise_no_more():
    found, _ = curve_pair(spec(mtp_curve(slots=48), curve()), 1000)
    assert found.mtp.slots == 48
    assert found.mtp.rate(48) == found.mtp.rate(24)


def test_a_table_that_falls_does_not_make_the_curve_fall():
    found, _ = curve_pair(spec(mtp_curve(((1, 100.0), (64, 1325.0), (124, 645.0))), curve()), 1000)
    assert found.mtp.rate(124) == 1325


@pytest.mark.parametrize("bad", [curve(((1, 0.0),)), curve(((2, 10.0), (1, 5.0)), slots=4)])
def test_points_that_are_no_curve_are_named(bad):
    with pytest.raises(InvalidCurve, match=r"^spec\.curves\[1\]\.points: "):
        curve_pair(spec(mtp_curve(), bad), 1000)


def test_parameters_that_are_no_model_are_named():
    profile = fitted()
    assert profile.fit is not None
    assert profile.fit.parameters is not None
    broken = profile.fit.parameters.model_copy(update={"draft_milliseconds": "-99"})
    with pytest.raises(InvalidCurve, match=r"^spec\.fit\.parameters: "):
        curve_pair(profile.model_copy(update={"fit": profile.fit.model_copy(update={"parameters": broken})}), 1000)


def test_points_accept_lengths_stand_in_for_the_curves():
    points = [{"concurrency": level, "outputTokensPerSecond": "100", "acceptLength": text} for level, text in ((1, "1.6"), (2, "2.0"))]
    found, _ = curve_pair(spec(mtp_curve(((1, 1.0), (2, 2.0)), acceptLength=None) | {"points": points}, curve()), 1000)
    assert found.accept_length == pytest.approx(1.8)


def test_without_accept_length_the_pair_has_none():
    for made in (spec, fitted):
        assert curve_pair(made(mtp_curve(acceptLength=None), curve()), 1000)[0].accept_length is None


def test_the_operators_side_needs_no_scipy():
    script = "import sys; import mtpilot.curves.of_profile, mtpilot.curves.report; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "False"
