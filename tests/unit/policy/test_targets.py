import pytest

from mtpilot.api.inference_service import Targets
from mtpilot.policy.fluid import fluid_fleet
from mtpilot.policy.forecast import Forecast, Load, Terms
from mtpilot.policy.targets import expected_latency, missing_targets
from tests.unit.policy.builders import PAIR, spec

TERMS = Terms(horizon_minutes=60.0, flip_minutes=4.0)


def forecast(demand: float, *, batch: int = 0, closed: float | None = None) -> Forecast:
    clients = closed if closed is not None else 0.0
    load = Load(demand=demand, queued=0.0, in_system=clients, closed_weight=float(closed is not None), output_tokens=1000.0)
    return Forecast(fluid_fleet(PAIR, 2), batch, load, TERMS)


def missed(view: Forecast, *, itl: str | None = None, ttft: str | None = None) -> set[int]:
    config = spec(replicas=2)
    workload = config.workload.model_copy(update={"targets": Targets(itl=itl, ttft=ttft)})
    return set(missing_targets(config.model_copy(update={"workload": workload}), view, (0, 1, 2)))


def test_without_targets_nothing_is_missed():
    assert missing_targets(spec(replicas=2), forecast(1e6), (0, 1, 2)) == frozenset()


def test_time_between_tokens_of_full_replicas():
    full = forecast(1e6)
    assert expected_latency(full, full.fleet.mix(0))[0] == pytest.approx(24 / PAIR.mtp.rate(24))
    assert expected_latency(full, full.fleet.mix(2))[0] == pytest.approx(68 / PAIR.batch.rate(68))


def test_a_mix_whose_tokens_come_too_slowly():
    assert missed(forecast(5000.0), itl="20ms") == {1, 2}
    assert missed(forecast(100.0), itl="20ms") == set(), "nearly empty, every mix is fast enough"


def test_a_mix_that_lets_requests_wait_too_long():
    assert missed(forecast(4000.0), ttft="10s") == {0}


def test_of_a_closed_loop_the_clients_beyond_the_slots_wait():
    view = forecast(0.0, closed=100.0)
    waits = (100 - 48) * 1000 / (2 * PAIR.mtp.rate(24))
    assert expected_latency(view, view.fleet.mix(0))[1] == pytest.approx(waits)
    assert missed(view, ttft="10s") == {0}, "eight of them wait for two seconds with one batch replica"


def test_where_every_mix_misses_they_are_equals():
    assert missed(forecast(1e5), ttft="1s") == set()


def test_the_present_mix_is_only_left_when_it_misses_by_more_than_a_curves_noise():
    at = forecast(0.0, batch=2, closed=60.0)
    itl = at.fleet.mix(2).token_seconds_of(60.0)
    near = f"{round(1000 * itl / 1.02)}ms"
    assert 2 not in missed(at, itl=near)
    assert 2 in missed(forecast(0.0, batch=1, closed=60.0), itl=near)
