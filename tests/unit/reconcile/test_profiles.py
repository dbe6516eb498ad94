"""Which profile is taken, why, and what is said where there is none."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from mtpilot.model.reasons import Reason
from mtpilot.model.snapshot import Profile, Snapshot
from mtpilot.reconcile.profiles import select
from tests import profiles
from tests.profiles import profile
from tests.world import World, spec


def snapshot(*found: Profile, **changes: Any) -> Snapshot:
    return replace(World(spec=spec(**changes)).snapshot(), profiles=found)


def test_the_only_one_that_fits():
    found = select(snapshot(profile()))
    assert found.calibration is not None
    assert (found.calibration.profile, found.calibration.context_tokens) == ("measured", 1000)
    assert (found.reason, found.message, found.notes) == (Reason.PROFILE_IN_USE, "the only one for this model on rtx", ())


@pytest.mark.parametrize(
    ("better", "worse", "why"),
    [
        ({"curves": profiles.curves(2000)}, {"curves": profiles.curves(16000), "acceptance": "Natural"}, "its context is nearer"),
        ({"acceptance": "Natural"}, {"acceptance": "SemiSynthetic"}, "Natural acceptance comes first"),
        ({"acceptance": "SemiSynthetic"}, {}, "SemiSynthetic acceptance comes first"),
        (
            {"provenance": {"measuredAt": "2026-11-20T09:00:00Z"}},
            {"provenance": {"measuredAt": "2026-11-20T09:59:00+01:00"}},
            "it was measured later",
        ),
        ({"provenance": {"measuredAt": "2026-11-20T09:00:00Z"}}, {}, "it was measured later"),
        ({}, {}, "its name comes first"),
    ],
)
def test_the_best_of_several_in_any_order(better: dict[str, Any], worse: dict[str, Any], why: str):
    found = [profile("b", **worse), profile("a", **better), profile("c", **worse)]
    if better:
        found[0], found[1] = replace(found[0], name="a"), replace(found[1], name="b")
    expected = "b" if better else "a"
    for order in itertools.permutations(found):
        taken = select(snapshot(*order))
        assert taken.calibration is not None
        assert taken.calibration.profile == expected
        assert taken.message.endswith(f": {why}")


def test_a_context_within_a_factor_of_two_is_as_good_as_the_same():
    natural = profile("a", acceptance="Natural", curves=profiles.curves(2900))
    taken = select(snapshot(natural, profile("b", curves=profiles.curves(1500))))
    assert taken.calibration is not None
    assert (taken.calibration.profile, taken.notes) == ("a", ())


def test_the_nearest_context_of_a_profile_is_taken_and_a_far_one_is_said():
    several = profile(curves=[*profiles.curves(1000), *profiles.curves(8000), *profiles.curves(32000)])
    for wanted, bucket in ((900, 1000), (4000, 8000), (100_000, 32000)):
        taken = select(snapshot(several, workload={"inputTokens": wanted, "outputTokens": 100, "contextTokens": wanted}))
        assert taken.calibration is not None
        assert taken.calibration.context_tokens == bucket
        assert taken.notes == ((f"measured with 32000 tokens of context, the workload has {wanted}",) if wanted == 100_000 else ())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"hardwareClass": "h200"}, "no ThroughputProfile for hf://Qwen/Qwen3.5-122B-A10B on rtx (other is of h200): `mtpilot profile fit"),
        ({"model": {"source": "hf://Qwen/Qwen3.6-27B"}}, "no ThroughputProfile for hf://Qwen/Qwen3.5-122B-A10B on rtx: `mtpilot"),
        ({"model": {"source": "hf://Qwen/Qwen3.5-122B-A10B", "revision": "4f1c"}}, "(other is of revision 4f1c)"),
    ],
)
def test_what_comes_near_is_said(other: dict[str, Any], message: str):
    found = select(snapshot(profile("other", **other)))
    assert (found.calibration, found.reason) == (None, Reason.UNCALIBRATED)
    assert message in found.message


def test_a_profile_with_a_revision_fits_that_revision():
    exact = profile(model={"source": "hf://Qwen/Qwen3.5-122B-A10B", "revision": "4f1c"})
    model = {"source": "hf://Qwen/Qwen3.5-122B-A10B"}
    assert select(snapshot(exact, model={**model, "revision": "4f1c"})).calibration is not None
    assert select(snapshot(exact, model={**model, "revision": "main"})).calibration is None
    assert select(snapshot(profile(), model={**model, "revision": "main"})).calibration is not None


def test_a_named_one_is_taken_as_it_is_and_what_differs_is_said():
    other = profile(
        "other",
        model={"source": "hf://Qwen/Qwen3.5-122B-A10B-FP8"},
        hardwareClass="rtx-old",
        provenance={"source": "report", "engine": "sglang 0.5.19"},
    )
    found = select(snapshot(profile(acceptance="Natural"), other, profile={"name": "other"}))
    assert found.calibration is not None
    assert (found.calibration.profile, found.message) == ("other", "spec.profile names it")
    assert found.notes == (
        "measured for hf://Qwen/Qwen3.5-122B-A10B-FP8, not hf://Qwen/Qwen3.5-122B-A10B",
        "measured on rtx-old, not rtx",
        "measured with sglang 0.5.19, the image has 0.5.23",
    )


def test_a_named_one_that_is_not_there_is_not_replaced_by_another():
    found = select(snapshot(profile(), profile={"name": "mistyped"}))
    assert (found.calibration, found.reason) == (None, Reason.UNCALIBRATED)
    expected = "spec.profile.name is 'mistyped', and no ThroughputProfile of this namespace has that name (those there are: measured); "
    assert found.message.startswith(expected)
    assert "(there is none)" in select(snapshot(profile={"name": "mistyped"})).message


def test_a_profile_that_cannot_be_used_says_why():
    only_mtp = profile(curves=profiles.curves()[:1])
    found = select(snapshot(only_mtp))
    assert (found.calibration, found.reason) == (None, Reason.PROFILE_INVALID)
    assert found.message.startswith("ThroughputProfile measured cannot be used: ")
    assert select(snapshot(only_mtp, profile={"name": "measured"})).reason == Reason.PROFILE_INVALID
    assert select(snapshot(only_mtp, profile("whole"))).reason == Reason.PROFILE_IN_USE
    unread = Profile(name="odd", generation=1, spec=None, problem="spec.acceptance: odd")
    assert select(snapshot(unread)).reason == Reason.UNCALIBRATED
    named = select(snapshot(unread, profile={"name": "odd"}))
    assert (named.reason, named.message) == (Reason.PROFILE_INVALID, "ThroughputProfile odd cannot be read: spec.acceptance: odd")


@pytest.mark.parametrize("engine", [None, "sglang", "sglang 0.5.23", "SGLang v0.5.23 (source)"])
def test_the_same_or_an_unknown_engine_version_is_no_note(engine: str | None):
    measured = profile(provenance={"engine": engine} if engine else {})
    assert select(snapshot(measured)).notes == ()


def test_other_engine_arguments_are_said():
    running = World().tick().status.effective.flags_sha256
    assert select(snapshot(profile(provenance={"flagsSha256": running}))).notes == ()
    other = select(snapshot(profile(provenance={"flagsSha256": "0" * 64})))
    assert other.notes == ("measured with other engine arguments than those that run",)
