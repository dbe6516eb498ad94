"""A profile's status and its words."""

import pytest

from mtpilot.api.throughput_profile import FitMethod, ThroughputProfileStatus, Verdict
from mtpilot.curves.report import fit_words, sentences, status_of
from tests.unit.curves.builders import curve, fitted, mtp_curve, power, spec


def test_a_profile_that_crosses():
    status = status_of(fitted(), 3)
    assert status.observed_generation == 3
    assert status.fit is not None
    assert status.fit.method is FitMethod.STEP_TIME
    assert status.verdict is Verdict.FLIP
    assert status.crossover is not None
    assert (status.crossover.above, status.crossover.bound, status.crossover.probability_none) == ("batch", "Slots", "0")
    assert status.message is not None
    assert "mtp has 24 slots" in status.message
    assert len(status.contexts) == 1
    assert ThroughputProfileStatus.model_validate(status.model_dump(by_alias=True)) == status


def test_a_profile_that_never_crosses_has_no_value():
    status = status_of(spec(mtp_curve(power(140, 0.8, 68)), curve(power(100, 0.8, 68))))
    assert status.verdict is Verdict.MTP_ONLY
    assert status.crossover is not None
    assert status.crossover.value is None
    assert float(status.crossover.probability_none) > 0.95
    assert sentences(spec(mtp_curve(power(140, 0.8, 68)), curve(power(100, 0.8, 68)))) == [
        "MtpOnly at 1000 tokens of context: mtp serves more at every level, by up to 40%"
    ]


def test_contexts_that_disagree_are_flip_and_stand_each_by_itself():
    long = [mtp_curve(power(70, 0.8, 68), context=16_000), curve(power(100, 0.8, 68), context=16_000)]
    status = status_of(spec(mtp_curve(power(140, 0.8, 68)), curve(power(100, 0.8, 68)), *long))
    assert [context.verdict for context in status.contexts] == [Verdict.MTP_ONLY, Verdict.BATCH_ONLY]
    assert status.verdict is Verdict.FLIP


def test_a_profile_without_a_pair_says_why():
    status = status_of(spec(curve()), 2)
    assert status.verdict is None
    assert status.crossover is None
    assert status.message == "Not usable: spec.curves: no contextTokens has a curve of both modes"


@pytest.mark.parametrize(
    ("profile", "words"),
    [(spec(), "No fit: a power law"), (fitted(), "Step-time model, mean error"), (fitted(draft_tokens=None), "Interpolation of the table")],
)
def test_the_fit_in_words(profile, words):
    assert fit_words(profile).startswith(words)


def test_the_message_stays_within_its_length():
    curves = [made(power(100, 0.8, 24), context=1000 * step) for step in range(1, 17) for made in (mtp_curve, curve)]
    for step, one in enumerate(curves):
        one["points"][-1]["outputTokensPerSecond"] = str(100 + step)
    status = status_of(spec(*curves))
    assert status.message is not None
    assert len(status.message) == 1024
    assert len(status.contexts) == 16
