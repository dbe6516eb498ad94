from typing import Any

import pytest

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.model.decision import Mix, NoDemand
from mtpilot.model.reasons import Reason
from mtpilot.policy.bounds import batch_bounds, pinned_mix, step_towards, with_batch
from mtpilot.policy.decide import decide
from mtpilot.policy.initial import first_mix, initial_mode
from tests.unit.policy.builders import NOW, calibration, fleet, spec


def mix(mtp: int, batch: int) -> Mix:
    return Mix(mtp=mtp, batch=batch)


def with_policy(replicas: int = 4, **policy: Any) -> InferenceServiceSpec:
    return spec(replicas=replicas, policy=policy)


@pytest.mark.parametrize(
    ("least", "replicas", "expected"),
    [
        ({}, 4, (0, 4)),
        ({"mtp": 1}, 4, (0, 3)),
        ({"batch": 2}, 4, (2, 4)),
        ({"mtp": 1, "batch": 1}, 4, (1, 3)),
        ({"mtp": 3, "batch": 3}, 4, (1, 1)),  # both cannot hold after a scale down: mtp first
        ({"mtp": 9}, 4, (0, 0)),
        ({"mtp": 1, "batch": 1}, 0, (0, 0)),
    ],
)
def test_bounds(least, replicas, expected):
    assert batch_bounds(with_policy(minReplicas=least), replicas) == expected


def test_the_nearest_allowed_mix():
    config = with_policy(minReplicas={"mtp": 1, "batch": 1})
    assert with_batch(config, 4, 0) == mix(3, 1)
    assert with_batch(config, 4, 2) == mix(2, 2)
    assert with_batch(config, 4, 9) == mix(1, 3)


@pytest.mark.parametrize(
    ("pinned", "replicas", "expected"),
    [
        ({"mtp": 3, "batch": 1}, 4, mix(3, 1)),
        ({"mtp": 3, "batch": 1}, 8, mix(6, 2)),
        ({"mtp": 3, "batch": 1}, 2, mix(1, 1)),  # both modes stay as long as there is room
        ({"mtp": 3, "batch": 1}, 1, mix(1, 0)),
        ({"mtp": 1, "batch": 7}, 3, mix(1, 2)),
        ({"mtp": 0, "batch": 4}, 6, mix(0, 6)),
        ({"mtp": 4, "batch": 0}, 1, mix(1, 0)),
        (None, 4, mix(4, 0)),
        ({"mtp": 0, "batch": 0}, 4, mix(4, 0)),
    ],
)
def test_pinned_mix(pinned, replicas, expected):
    assert pinned_mix(with_policy(mode="Pinned", pinned=pinned), replicas) == expected


@pytest.mark.parametrize(
    ("now", "target", "expected"),
    [
        (mix(4, 0), mix(2, 2), Mode.BATCH),
        (mix(0, 4), mix(2, 2), Mode.MTP),
        (mix(2, 2), mix(2, 2), None),
        (mix(2, 0), mix(2, 2), None),  # two replicas are still to be created, in batch
        (mix(4, 2), mix(2, 2), None),  # two are on their way out
    ],
)
def test_step_towards(now, target, expected):
    assert step_towards(now, target) is expected


@pytest.mark.parametrize(
    ("policy", "existing", "recommended", "expected"),
    [
        ({}, mix(0, 0), None, Mode.MTP),
        ({}, mix(0, 0), mix(0, 0), Mode.MTP),
        ({}, mix(4, 0), mix(4, 0), Mode.MTP),
        ({}, mix(2, 1), mix(2, 2), Mode.BATCH),  # a batch slot was lost
        ({}, mix(1, 2), mix(2, 2), Mode.MTP),
        ({}, mix(0, 4), mix(0, 4), Mode.BATCH),  # scale up in overload
        ({}, mix(2, 2), mix(2, 2), Mode.MTP),
        ({"mode": "RecommendOnly"}, mix(4, 0), mix(0, 4), Mode.MTP),
        ({"minReplicas": {"batch": 1}}, mix(0, 0), None, Mode.BATCH),
        ({"minReplicas": {"mtp": 1, "batch": 1}}, mix(0, 0), None, Mode.MTP),
        ({"minReplicas": {"mtp": 1, "batch": 1}}, mix(1, 0), None, Mode.BATCH),
        ({"minReplicas": {"mtp": 1}}, mix(0, 3), mix(0, 4), Mode.MTP),
    ],
)
def test_initial_mode(policy, existing, recommended, expected):
    assert initial_mode(with_policy(**policy), existing, recommended) is expected


@pytest.mark.parametrize("pinned", [{"mtp": 2, "batch": 2}, {"mtp": 0, "batch": 4}, {"mtp": 3, "batch": 1}])
def test_a_pinned_fleet_is_created_as_pinned(pinned):
    config = with_policy(mode="Pinned", pinned=pinned)
    there = mix(0, 0)
    for _ in range(4):
        mode = initial_mode(config, there, None)
        there = mix(there.mtp + (mode is Mode.MTP), there.batch + (mode is Mode.BATCH))
    assert there == mix(**pinned)


@pytest.mark.parametrize(
    ("verdict", "policy", "expected"),
    [
        (Verdict.FLIP, {}, mix(4, 0)),
        (Verdict.MTP_ONLY, {}, mix(4, 0)),
        (Verdict.BATCH_ONLY, {}, mix(0, 4)),
        (Verdict.BATCH_ONLY, {"minReplicas": {"mtp": 1}}, mix(1, 3)),
        (None, {"minReplicas": {"batch": 1}}, mix(3, 1)),
    ],
)
def test_a_service_begins_as_its_profiles_verdict_says(verdict, policy, expected):
    known = None if verdict is None else calibration(verdict=verdict)
    asked = with_policy(**policy)
    assert first_mix(asked, 4, known) == expected
    nobody = NoDemand(reason=Reason.NO_READY_REPLICA, message="no replica is ready")
    nothing = fleet(mix(0, 0), replicas=4, ready=0)
    assert decide(asked, nobody, nothing, PolicyState(), NOW, known).recommended == expected


@pytest.mark.parametrize(("share", "expected"), [(1.0, mix(0, 4)), (0.6, mix(4, 0))])
def test_a_service_begins_in_batch_where_its_profile_makes_batch_quicker_at_most_loads(share, expected):
    """A pair that crosses the other way about: batch is better at low loads, mtp where all is taken."""
    batch = ThroughputCurve(concurrency=(1.0, 8.0, 64.0), tokens_per_second=(96 * share, 445 * share, 1209 * share))
    mtp = ThroughputCurve(concurrency=(1.0, 8.0, 64.0), tokens_per_second=(80.0, 400.0, 1326.0))
    assert first_mix(with_policy(), 4, calibration(CurvePair(mtp=mtp, batch=batch))) == expected
