"""Levels, accept length and slots belong to the curves and templates that they were seen with."""

from dataclasses import replace
from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.curves.curve import CurvePair
from mtpilot.policy.memory import Remembered, recall
from mtpilot.policy.outdated import curves_digest, without_outdated
from mtpilot.policy.refine import Level, Refinement
from mtpilot.policy.regret import NO_REGRET
from tests.unit.policy.builders import DIGESTS, PAIR, fleet
from tests.unit.policy.watch import ALL_MTP, MTP_CAPACITY, Watch

RUNNING: dict[str, Any] = {"mtp_digest": DIGESTS[Mode.MTP], "batch_digest": DIGESTS[Mode.BATCH]}
SEEN = PolicyState(
    smoothed_tokens_per_second="1234.500",
    price_to_batch="410.250000",
    accept_length="1.820000",
    mtp_slots=20,
    batch_slots=60,
    mtp_level="0.800000",
    mtp_level_weight="0.900000",
    batch_level="1.200000",
    batch_level_weight="0.400000",
    drift_seconds=3600,
    regret_batch=2,
    regret_to_batch="120.000000",
    regret_to_mtp="-3.000000",
    curves_digest=curves_digest(PAIR),
    mtp_template=DIGESTS[Mode.MTP],
    batch_template=DIGESTS[Mode.BATCH],
)
LEVELS = Refinement(mtp=Level(value=0.8, known=0.9), batch=Level(value=1.2, known=0.4), drift_seconds=3600)
OTHER_CURVES = (
    replace(PAIR, mtp=PAIR.mtp.scaled(1.3)),
    replace(PAIR, batch=PAIR.batch.with_slots(80)),
    replace(PAIR, accept_length=1.7),
    replace(PAIR, accept_length=None),
)


def kept(state: PolicyState = SEEN, curves: CurvePair = PAIR, **changes: Any) -> Remembered:
    return recall(without_outdated(state, curves, fleet(**(RUNNING | changes))))


@pytest.mark.parametrize("curves", OTHER_CURVES)
def test_other_curves_are_another_scale_for_levels_and_accept_length(curves: CurvePair) -> None:
    found = kept(curves=curves)
    assert (found.refinement, found.accept_length) == (Refinement(), None)
    assert found.rule.regret == NO_REGRET
    assert (found.mtp_slots, found.batch_slots) == (20, 60), "slots are the engines', not the curves'"
    assert (found.rule.demand, found.rule.price_to_batch) == (1234.5, 410.25), "and the load is the load"


def test_another_mtp_template_is_another_mtp_engine() -> None:
    found = kept(mtp_digest="cccccccccccc")
    assert (found.refinement, found.accept_length, found.mtp_slots) == (Refinement(batch=LEVELS.batch), None, None)
    assert found.batch_slots == 60
    assert found.rule.regret == recall(SEEN).rule.regret != NO_REGRET


def test_another_batch_template_is_another_batch_engine() -> None:
    found = kept(batch_digest="cccccccccccc")
    assert (found.refinement, found.accept_length, found.batch_slots) == (Refinement(mtp=LEVELS.mtp), 1.82, None)
    assert found.mtp_slots == 20


@pytest.mark.parametrize("curves", [PAIR, replace(PAIR, mtp_error=0.1), replace(PAIR, mtp=PAIR.mtp.scaled(1 + 1e-9))])
def test_the_same_curves_and_templates_forget_nothing(curves: CurvePair) -> None:
    assert without_outdated(SEEN, curves, fleet(**RUNNING)) is SEEN


@pytest.mark.parametrize("missing", ["curves_digest", "mtp_template", "batch_template"])
def test_a_state_without_a_digest_forgets_nothing_and_is_given_it(missing: str) -> None:
    old = SEEN.model_copy(update={missing: None})
    assert without_outdated(old, PAIR, fleet(**RUNNING)) == SEEN


def test_a_fleet_without_digests_forgets_nothing() -> None:
    assert without_outdated(SEEN, PAIR, fleet()) is SEEN


def test_a_level_learned_by_one_profile_does_not_correct_the_next() -> None:
    """A profile that says a quarter too much is corrected down; its successor, which is right, is not."""
    wrong = replace(PAIR, mtp=PAIR.mtp.scaled(1.25))
    watch = Watch(ALL_MTP, profile=wrong)
    watch.watch(0.9 * MTP_CAPACITY, seconds=1800)
    assert recall(watch.state).refinement.mtp.value == pytest.approx(0.8, abs=0.02)
    watch.profile = PAIR
    watch.look(0.9 * MTP_CAPACITY)
    assert recall(watch.state).refinement.mtp.value == pytest.approx(1.0, abs=0.01)
