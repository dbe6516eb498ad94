"""How an engine's end is paced: the pause before SIGTERM belongs to the drain, and the grace period covers both."""

import pytest

from mtpilot.api.inference_service import RolloutSpec
from mtpilot.render.timing import grace_period_seconds, pre_stop_seconds


@pytest.mark.parametrize(("drain", "pause"), [("10m", 5), ("50s", 5), ("49s", 5), ("40s", 4), ("20s", 2), ("5s", 1), ("0s", 1)])
def test_the_pause_is_a_tenth_of_the_drain_and_five_seconds_at_most(drain, pause):
    assert pre_stop_seconds(RolloutSpec(drain_timeout=drain)) == pause


def test_the_grace_period_covers_pause_drain_and_shutdown():
    assert grace_period_seconds(RolloutSpec(drain_timeout="10m")) == 600 + 5 + 30
    assert grace_period_seconds(RolloutSpec(drain_timeout="20s")) == 20 + 2 + 30
