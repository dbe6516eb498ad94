import pytest

from mtpilot.api.inference_service import RolloutStrategy
from mtpilot.model.decision import Mix
from mtpilot.model.reasons import Reason
from mtpilot.policy.strategy import feasible_strategy, why_infeasible
from tests.unit.policy.builders import fleet, spec

AUTO, SURGE, ROLLING, RECREATE = RolloutStrategy.AUTO, RolloutStrategy.SURGE, RolloutStrategy.ROLLING, RolloutStrategy.RECREATE


@pytest.mark.parametrize(
    ("wanted", "replicas", "ready", "free", "downtime", "expected"),
    [
        (AUTO, 4, 4, 0, False, ROLLING),
        (AUTO, 4, 4, 16, False, ROLLING),  # the budget holds even where GPUs are free
        (AUTO, 4, 2, 0, False, ROLLING),
        (AUTO, 4, 1, 0, False, Reason.REPLICAS_NOT_READY),
        (AUTO, 4, 1, 0, True, RECREATE),
        (AUTO, 1, 1, 0, False, Reason.DOWNTIME_NOT_ALLOWED),
        (AUTO, 1, 1, 4, False, Reason.DOWNTIME_NOT_ALLOWED),
        (AUTO, 1, 1, 0, True, RECREATE),
        (ROLLING, 2, 2, 0, False, ROLLING),
        (ROLLING, 1, 1, 0, False, Reason.DOWNTIME_NOT_ALLOWED),
        (ROLLING, 1, 1, 0, True, RECREATE),
        (RECREATE, 4, 4, 0, False, RECREATE),
        (RECREATE, 1, 1, 0, False, Reason.DOWNTIME_NOT_ALLOWED),
        (RECREATE, 1, 1, 0, True, RECREATE),
        (SURGE, 4, 4, 4, False, SURGE),
        (SURGE, 1, 1, 4, False, SURGE),
        (SURGE, 4, 4, 3, False, Reason.NO_SURGE_CAPACITY),
        (SURGE, 1, 1, 0, True, Reason.NO_SURGE_CAPACITY),
    ],
)
def test_strategy(wanted, replicas, ready, free, downtime, expected):
    config = spec(replicas=replicas, rollout={"strategy": wanted.value, "allowDowntime": downtime})
    state = fleet(Mix(mtp=replicas, batch=0), ready=ready, gpus_free=free)
    found = feasible_strategy(config, state)
    if isinstance(expected, RolloutStrategy):
        assert found is expected
    else:
        assert found is None
        reason, message, would_change = why_infeasible(config, state)
        assert reason is expected
        assert message
        assert would_change
