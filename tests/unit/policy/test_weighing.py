import pytest

from mtpilot.model.decision import Mix
from mtpilot.policy.predictive import DEFAULT_SETTINGS
from mtpilot.policy.weighing import terms_of
from tests.unit.policy.builders import fleet, spec


@pytest.mark.parametrize(
    ("replicas", "flip_seconds", "minutes"),
    [(4, 240.0, 60.0), (4, 30.0, 60.0), (4, 600.0, 150.0), (1, 600.0, 60.0)],
)
def test_a_slow_flip_looks_further_ahead_where_others_serve_on(replicas, flip_seconds, minutes):
    seen = fleet(Mix(mtp=replicas, batch=0), expected_flip_seconds=flip_seconds)
    assert terms_of(spec(replicas=replicas), seen, DEFAULT_SETTINGS).horizon_minutes == pytest.approx(minutes)
