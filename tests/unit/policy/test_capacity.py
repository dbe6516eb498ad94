from dataclasses import replace

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, Mix, ReplicaSample
from mtpilot.policy.capacity import Learned, full_at, has_no_room, is_full, learn, recall, template_in_force
from tests.unit.policy.builders import DIGESTS, demand, fleet, full, sample, spec

MTP = DIGESTS[Mode.MTP]
KNOWN = Learned(tokens_per_second=1000.0, template=MTP)


def seen(*replicas: ReplicaSample) -> Demand:
    return replace(demand(0.0), replicas=replicas)


@pytest.mark.parametrize(
    ("full_at_running", "slots", "running", "expected"),
    [
        (None, 24, 24.0, True),
        (None, 24, 23.0, False),
        (None, 100, 97.0, True),
        (None, 100, 96.0, False),
        (20, 24, 20.0, True),
        (20, 24, 19.0, False),
        (48, 24, 24.0, True),
        (None, 1, 0.0, False),
    ],
)
def test_full(full_at_running, slots, running, expected):
    """By the spec's number or by 0.97 of the effective slots, whichever is reached first."""
    thresholds = {"fullAtRunningRequests": full_at_running} if full_at_running else {}
    assert is_full(spec(policy={"thresholds": thresholds}), sample(running=running, slots=slots)) is expected


@pytest.mark.parametrize(("running", "queued", "expected"), [(24.0, 0.0, True), (15.0, 2.0, True), (15.0, 0.0, False), (0.0, 2.0, False)])
def test_no_room(running, queued, expected):
    """An engine that runs some and lets others wait is short of KV cache, if not of slots."""
    assert has_no_room(spec(), sample(running=running, queued=queued)) is expected


def test_the_specs_number_is_about_mtp_alone():
    assert full_at(spec(policy={"thresholds": {"fullAtRunningRequests": 8}}), sample(mode=Mode.BATCH, slots=100)) == 97.0


def test_one_sample_is_not_enough():
    once = learn(Learned(), seen(full(rate=900.0)), MTP, spec(), None)
    assert once.known is None
    assert learn(once, seen(full(rate=1000.0)), MTP, spec(), 10.0) == Learned(tokens_per_second=900.0, template=MTP)


@pytest.mark.parametrize("first", [5000.0, 200.0], ids=["a spike", "still filling up"])
def test_two_samples_that_disagree_are_not_enough(first: float):
    second = learn(Learned(tokens_per_second=first), seen(full(rate=1000.0)), MTP, spec(), 10.0)
    assert second == Learned(tokens_per_second=1000.0)
    assert learn(second, seen(full(rate=990.0)), MTP, spec(), 10.0) == Learned(tokens_per_second=990.0, template=MTP)


def test_a_spike_later_moves_it_by_its_share_of_time():
    after = learn(KNOWN, seen(full(rate=2000.0)), MTP, spec(), 10.0)
    assert after.known is not None
    assert 1000.0 < after.known < 1300.0


def test_it_rises_within_the_stabilization_and_sinks_slowly():
    up = down = KNOWN
    for _ in range(9):
        up = learn(up, seen(full(rate=1200.0)), MTP, spec(), 10.0)
        down = learn(down, seen(full(rate=800.0)), MTP, spec(), 10.0)
    assert up.known is not None
    assert up.known > 1180.0
    assert down.known is not None
    assert 950.0 < down.known < 1000.0


def test_an_absence_does_not_give_one_sample_all_the_weight():
    after = learn(KNOWN, seen(full(rate=2000.0)), MTP, spec(), 1e6)
    assert after.known is not None
    assert after.known < 1700.0


@pytest.mark.parametrize(
    "replicas",
    [
        (),
        (sample(running=10.0, tokens_per_second=4000.0),),
        (sample(mode=Mode.BATCH, running=68.0, tokens_per_second=4000.0),),
        (full(rate=4000.0, digest="cccccccccccc"),),
        (full(rate=0.0),),
    ],
    ids=["none", "not full", "batch", "another template", "no tokens yet"],
)
def test_what_teaches_nothing(replicas):
    assert learn(KNOWN, seen(*replicas), MTP, spec(), 10.0) == KNOWN


def test_several_full_replicas_give_their_mean():
    once = learn(Learned(), seen(full(0, 900.0), full(1, 1100.0), sample(2)), MTP, spec(), None)
    assert once.tokens_per_second == 1000.0


def test_a_stabilization_of_zero_takes_the_last_sample():
    quick = spec(policy={"stabilization": {"up": "0s", "down": "0s"}})
    assert learn(KNOWN, seen(full(rate=1200.0)), MTP, quick, 1.0).known == 1200.0


def test_another_template_forgets():
    state = PolicyState(mtp_capacity_tokens_per_second="1000", mtp_capacity_template=MTP)
    assert recall(state, MTP) == KNOWN
    assert recall(state, "cccccccccccc") == Learned()
    assert recall(PolicyState(mtp_capacity_tokens_per_second="0", mtp_capacity_template=MTP), MTP) == Learned()


def test_an_unconfirmed_sample_is_remembered_as_such():
    assert recall(PolicyState(mtp_capacity_tokens_per_second="900"), MTP) == Learned(tokens_per_second=900.0)


def test_the_template_in_force():
    mtp = demand(100.0)
    assert template_in_force(mtp, fleet(), None) == MTP
    assert template_in_force(mtp, fleet(), "cccccccccccc") == MTP, "none of the replicas has the old one any more"
    assert template_in_force(mtp, fleet(mtp_digest="dddddddddddd"), MTP) == "dddddddddddd", "what is rendered wins"
    batch = demand(100.0, mix=Mix(mtp=0, batch=4))
    assert template_in_force(batch, fleet(), MTP) == MTP, "no mtp replica contradicts it"


def test_during_a_roll_the_known_template_stays_until_its_last_replica():
    mixed = seen(sample(0), sample(1, digest="cccccccccccc"), sample(2, digest="cccccccccccc"))
    assert template_in_force(mixed, fleet(), MTP) == MTP
    assert template_in_force(mixed, fleet(), None) == "cccccccccccc"
