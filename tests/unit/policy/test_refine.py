import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.policy.refine import AS_MEASURED, DRIFT_SECONDS, HIGHEST, LOWEST, Level, Refinement, refine
from tests.unit.policy.builders import PAIR, sample


def loaded(mode: Mode = Mode.MTP, *, running: float = 16.0, level: float = 1.0, **changes):
    return sample(0, mode, running=running, tokens_per_second=level * PAIR.of(mode).rate(running), **changes)


def after(samples, seconds: float = 7200.0, before: Refinement | None = None, *, mtp_scale: float = 1.0) -> Refinement:
    """The refinement after `seconds` of the same samples, a minute each."""
    found = before or Refinement()
    for _ in range(round(seconds / 60)):
        found = refine(found, samples, PAIR, mtp_scale=mtp_scale, elapsed_seconds=60.0)
    return found


def test_replicas_that_do_what_their_curve_says_change_nothing():
    found = after([loaded(), loaded(Mode.BATCH)])
    assert found.factor(Mode.MTP) == pytest.approx(1.0)
    assert found.factor(Mode.BATCH) == pytest.approx(1.0)


def test_the_level_of_a_mode_follows_what_its_replicas_do():
    found = after([loaded(level=0.9), loaded(Mode.BATCH, level=1.1)], 4 * 3600)
    assert found.factor(Mode.MTP) == pytest.approx(0.9, abs=0.005)
    assert found.factor(Mode.BATCH) == pytest.approx(1.1, abs=0.005)


def test_slowly():
    assert after([loaded(level=0.9)], 60).factor(Mode.MTP) == pytest.approx(1.0, abs=0.005)


def test_what_is_not_seen_of_one_mode_is_taken_from_the_other():
    """A longer context slows both; to slow only the one that runs would move the fleet for no reason."""
    found = after([loaded(level=0.85)], 4 * 3600)
    assert found.factor(Mode.BATCH) == pytest.approx(found.factor(Mode.MTP), abs=0.005)


def test_what_was_seen_long_ago_gives_way_to_the_other_mode():
    seen = after([loaded(Mode.BATCH, level=1.1)], 4 * 3600)
    assert after([loaded(level=0.9)], 3600, seen).factor(Mode.BATCH) > 1.05
    assert after([loaded(level=0.9)], 48 * 3600, seen).factor(Mode.BATCH) == pytest.approx(0.9, abs=0.01)


def test_live_acceptance_is_no_matter_of_the_level():
    found = after([loaded(level=0.75)], 4 * 3600, mtp_scale=0.75)
    assert found.factor(Mode.MTP) == pytest.approx(1.0)


@pytest.mark.parametrize("running", [0.0, 1.0, 2.0])
def test_nearly_idle_replicas_tell_nothing(running):
    assert after([sample(0, Mode.MTP, running=running, tokens_per_second=900.0)]) == Refinement()


def test_without_samples_nothing_is_learned():
    assert after([]) == Refinement()


@pytest.mark.parametrize(("level", "factor"), [(0.3, LOWEST), (3.0, HIGHEST)])
def test_corrections_are_bounded(level, factor):
    assert after([loaded(level=level)], 6 * 3600).factor(Mode.MTP) == factor


class TestDrift:
    def test_a_mode_that_does_not_run_is_not_blamed_for_ever(self):
        drifted = after([loaded(Mode.BATCH, level=1.4)], 4 * 3600)
        assert drifted.drifted is Mode.BATCH
        assert after([loaded()], 2 * 3600, drifted).drifted is None

    def test_a_profile_that_is_far_off_for_half_an_hour_has_drifted(self):
        averaging = 1200
        assert after([loaded(level=0.8)], averaging).drifted is None
        assert after([loaded(level=0.8)], averaging + DRIFT_SECONDS).drifted is Mode.MTP

    @pytest.mark.parametrize("level", [0.9, 1.1])
    def test_a_little_off_is_refined_and_no_drift(self, level):
        assert after([loaded(level=level)], 24 * 3600).drifted is None

    def test_the_further_mode_is_named(self):
        found = after([loaded(level=0.84), loaded(Mode.BATCH, level=1.4)], 6 * 3600)
        assert found.drifted is Mode.BATCH

    def test_it_ends_once_the_samples_are_back(self):
        drifted = after([loaded(level=0.7)], 6 * 3600)
        assert after([loaded()], 3 * 3600, drifted).drifted is None

    def test_a_quiet_night_neither_makes_nor_ends_it(self):
        drifted = after([loaded(level=0.7)], 6 * 3600)
        assert after([], 8 * 3600, drifted).drift_seconds == drifted.drift_seconds


def test_a_level_that_nothing_is_known_of_counts_for_nothing():
    assert Refinement(mtp=Level(value=0.5, known=0.0), batch=AS_MEASURED).factor(Mode.BATCH) == 1.0
