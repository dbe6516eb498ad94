"""What a profile's status says of its curves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Verdict
from mtpilot.model.reasons import Reason
from mtpilot.model.snapshot import Profile
from mtpilot.reconcile.profile_status import profile_status
from tests import profiles
from tests.world import START


def test_slots_make_the_crossover_of_the_published_report():
    found = profile_status(profiles.profile(generation=3), START)
    assert (found.observed_generation, found.verdict) == (3, Verdict.FLIP)
    crossover = found.crossover
    assert crossover is not None
    assert (crossover.above, crossover.bound) == (Mode.BATCH, Bound.SLOTS)
    assert crossover.value is not None
    assert 34 < float(crossover.value) < 38
    assert [item.context_tokens for item in found.contexts] == [1000]


def test_curves_of_both_modes_make_a_valid_profile():
    (valid,) = profile_status(profiles.profile(generation=3, curves=[*profiles.curves(), *profiles.curves(8000)]), START).conditions
    assert (valid.type, valid.status, valid.reason) == ("Valid", "True", Reason.CURVES_USABLE)
    assert valid.message == "curves of both modes at 1000, 8000 tokens of context"
    assert (valid.observed_generation, valid.last_transition_time) == (3, "2026-12-01T12:00:00Z")


REFUSED = [
    (
        profiles.profile(generation=2, curves=profiles.curves()[:1]),
        Reason.PROFILE_INVALID,
        "no contextTokens has a curve of both modes",
    ),
    (
        Profile(name="odd", generation=2, spec=None, problem="spec.acceptance: odd"),
        Reason.PROFILE_UNREADABLE,
        "Not readable: spec.acceptance: odd",
    ),
    (Profile(name="odd", generation=2, spec=None, problem="spec: " + "x" * 2000), Reason.PROFILE_UNREADABLE, "Not readable: spec: xx"),
]


@pytest.mark.parametrize(("profile", "reason", "words"), REFUSED)
def test_a_profile_that_cannot_be_used_says_why_and_has_no_verdict(profile: Profile, reason: Reason, words: str):
    found = profile_status(profile, START)
    (valid,) = found.conditions
    assert (found.observed_generation, found.verdict, found.message) == (2, None, valid.message)
    assert (valid.status, valid.reason, valid.observed_generation) == ("False", reason, 2)
    assert words in valid.message


def test_a_transition_time_moves_only_with_the_status():
    first = profile_status(profiles.profile(), START)
    later = START + timedelta(hours=1)
    (still,) = profile_status(profiles.profile(generation=2), later, first.conditions).conditions
    assert (still.observed_generation, still.last_transition_time) == (2, "2026-12-01T12:00:00Z")
    (broken,) = profile_status(profiles.profile(generation=3, curves=profiles.curves()[:1]), later, first.conditions).conditions
    assert broken.last_transition_time == "2026-12-01T13:00:00Z"


def test_equal_specs_have_equal_statuses_whatever_their_name():
    measured = profiles.profile()
    assert profile_status(measured, START) == profile_status(replace(measured, name="other"), START)
