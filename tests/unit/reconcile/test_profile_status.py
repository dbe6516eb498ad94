"""What a profile's status says of its curves."""

from dataclasses import replace

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Bound, Verdict
from mtpilot.model.snapshot import Profile
from mtpilot.reconcile.profile_status import profile_status
from tests import profiles


def test_slots_make_the_crossover_of_the_published_report():
    found = profile_status(profiles.profile(generation=3))
    assert (found.observed_generation, found.verdict) == (3, Verdict.FLIP)
    crossover = found.crossover
    assert crossover is not None
    assert (crossover.above, crossover.bound) == (Mode.BATCH, Bound.SLOTS)
    assert crossover.value is not None
    assert 34 < float(crossover.value) < 38
    assert [item.context_tokens for item in found.contexts] == [1000]


def test_curves_that_cannot_be_used_have_a_message_and_no_verdict():
    found = profile_status(profiles.profile(generation=2, curves=profiles.curves()[:1]))
    assert (found.observed_generation, found.verdict) == (2, None)
    assert "no contextTokens has a curve of both modes" in (found.message or "")
    unread = profile_status(Profile(name="odd", generation=2, spec=None, problem="spec.acceptance: odd"))
    assert (unread.observed_generation, unread.message) == (2, "Not readable: spec.acceptance: odd")


def test_equal_specs_have_equal_statuses_whatever_their_name():
    measured = profiles.profile()
    assert profile_status(measured) == profile_status(replace(measured, name="other"))
