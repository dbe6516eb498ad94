from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, Mix, NoDemand
from mtpilot.model.metrics import MetricsError, MetricsView, PodMetrics
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import EngineLoad, Pod
from mtpilot.policy.demand import observe
from tests.unit.policy.builders import NOW, SCRAPE, ago, gateway, pod, pods_and_slots, series, slot, spec, state, view

FOUR = Mix(mtp=4, batch=0)


def look(
    metrics: MetricsView | None,
    *,
    pods: Sequence[Pod] | None = None,
    engines: Mapping[str, EngineLoad] | None = None,
    before: PolicyState | None = None,
) -> Demand | NoDemand:
    found, slots = pods_and_slots(FOUR)
    return observe(metrics, found if pods is None else pods, slots, engines or {}, spec(), before or PolicyState(), NOW)


def seen(metrics: MetricsView, **kwargs) -> Demand:
    found = look(metrics, **kwargs)
    assert isinstance(found, Demand), found
    return found


def unseen(metrics: MetricsView | None, **kwargs) -> NoDemand:
    found = look(metrics, **kwargs)
    assert isinstance(found, NoDemand), found
    return found


def test_a_quiet_fleet():
    found = seen(view([series(running=5.0, rate=300.0, accept_length=1.8)] * 4, gateway=gateway()))
    assert found.served_tokens_per_second == found.demand_tokens_per_second == 1200.0
    assert (found.in_flight, found.queued, found.saturated) == (20.0, 0.0, False)
    assert found.accept_length == pytest.approx(1.8)
    assert [replica.slot for replica in found.replicas] == ["chat-r0", "chat-r1", "chat-r2", "chat-r3"]
    assert found.missing == ()
    assert (found.at, found.scrape_interval_seconds) == (NOW, SCRAPE)


def test_a_good_scrape_of_zero_is_zero():
    idle = PodMetrics(age_seconds=4.0, running=0.0, queued=0.0, generation_tokens_per_second=0.0)
    found = seen(view([idle] * 4))
    assert (found.demand_tokens_per_second, found.in_flight, found.saturated) == (0.0, 0.0, False)


def test_engine_and_gateway_queues_add_up():
    found = seen(view([series(queued=1.0), *[series()] * 3], gateway=gateway(queued=7.0)))
    assert found.queued == 8.0
    assert found.saturated


def test_saturated_without_a_queue_when_every_replica_is_full():
    assert seen(view([series(running=24.0)] * 4)).saturated
    assert not seen(view([series(running=24.0)] * 3 + [series(running=9.0)])).saturated


def test_saturated_demand_is_arrivals_times_finished_output():
    busy = [series(running=24.0, queued=3.0, rate=1000.0, requests_per_second=2.5)] * 4
    found = seen(view(busy, gateway=gateway(arrivals=16.0)))
    assert found.served_tokens_per_second == 4000.0
    assert found.demand_tokens_per_second == pytest.approx(16 * 400)


def test_while_a_backlog_clears_demand_is_what_arrives_not_the_more_that_is_served():
    busy = [series(running=24.0, queued=3.0, rate=1000.0, requests_per_second=2.5)] * 4
    found = seen(view(busy, gateway=gateway(arrivals=7.0)))
    assert found.demand_tokens_per_second == pytest.approx(7 * 400)
    assert found.mean_output_tokens == pytest.approx(400)


def test_with_few_finished_requests_the_specs_output_counts():
    busy = [series(running=24.0, queued=3.0, rate=1000.0, requests_per_second=0.01)] * 4
    assert seen(view(busy, gateway=gateway(arrivals=16.0))).demand_tokens_per_second == pytest.approx(16 * 500)


def test_without_finished_counters_the_specs_output_counts():
    busy = [series(running=24.0, queued=3.0, rate=1000.0, requests_per_second=None)] * 4
    assert seen(view(busy, gateway=gateway(arrivals=16.0))).demand_tokens_per_second == pytest.approx(16 * 500)


def test_while_a_queue_is_worked_off_demand_is_what_arrives_not_what_is_served():
    busy = [series(running=24.0, queued=3.0, rate=1000.0, requests_per_second=2.5)] * 4
    assert seen(view(busy, gateway=gateway(arrivals=4.0))).demand_tokens_per_second == pytest.approx(4 * 400)


def test_demand_from_an_estimate_is_never_below_what_is_served():
    busy = [series(running=24.0, queued=3.0, rate=1000.0, requests_per_second=0.01)] * 4
    assert seen(view(busy, gateway=gateway(arrivals=0.1))).demand_tokens_per_second == 4000.0


def test_arrivals_say_nothing_while_nothing_waits():
    assert seen(view([series(rate=300.0)] * 4, gateway=gateway(arrivals=500.0))).demand_tokens_per_second == 1200.0


def test_without_a_gateway_demand_is_what_is_served():
    assert seen(view([series(running=24.0, queued=9.0, rate=1000.0)] * 4)).demand_tokens_per_second == 4000.0


def test_effective_slots_come_from_the_engine():
    engines = {"uid-0": EngineLoad(running=1, waiting=0, effective_max_running_requests=12)}
    found = seen(view([series()] * 4), engines=engines)
    assert [replica.slots for replica in found.replicas] == [12, 24, 24, 24]


def test_batch_replicas_have_batch_slots():
    pods, slots = pods_and_slots(Mix(mtp=1, batch=1))
    found = observe(view([series()] * 2), pods, slots, {}, spec(), PolicyState(), NOW)
    assert isinstance(found, Demand)
    assert [(replica.mode, replica.slots) for replica in found.replicas] == [(Mode.MTP, 24), (Mode.BATCH, 68)]


def test_a_draining_pods_tokens_are_demand_but_it_is_no_replica():
    pods, _ = pods_and_slots(FOUR)
    pods[3] = pod(3, serving=False)
    found = seen(view([series(running=5.0, rate=300.0)] * 4), pods=pods)
    assert found.served_tokens_per_second == 1200.0
    assert found.in_flight == 20.0
    assert len(found.replicas) == 3
    without = seen(view([series(rate=300.0)] * 3), pods=pods)
    assert without.served_tokens_per_second == 900.0, "and it may lack series"


def test_dead_pods_are_dropped():
    metrics = view([series(rate=300.0)] * 4)
    metrics.pods["uid-dead"] = series(running=99.0, queued=99.0, rate=9999.0)
    assert seen(metrics) == seen(view([series(rate=300.0)] * 4))


@pytest.mark.parametrize(
    "changes",
    [{"ready": False}, {"serving": False}, {"terminating": True}, {"finished": True}, {"slot": "chat-r9"}],
    ids=["not ready", "not serving", "terminating", "finished", "slot is gone"],
)
def test_pods_that_do_not_serve_are_not_expected(changes):
    pods, _ = pods_and_slots(FOUR)
    pods[3] = pod(3, **changes)
    assert len(seen(view([series()] * 3), pods=pods).replicas) == 3


def test_a_fresh_pod_is_not_expected_yet():
    pods, _ = pods_and_slots(FOUR)
    pods[3] = pod(3, ready_since=ago(2 * SCRAPE))
    found = seen(view([series()] * 3), pods=pods)
    assert (len(found.replicas), found.missing) == (3, ())
    incomplete = PodMetrics(age_seconds=4.0, running=3.0, queued=0.0, generation_tokens_per_second=None)
    assert len(seen(view([*[series()] * 3, incomplete]), pods=pods).replicas) == 3
    assert len(seen(view([series()] * 4), pods=pods).replicas) == 4, "but it counts as soon as it has series"


def test_after_three_scrapes_it_is_expected():
    pods, _ = pods_and_slots(FOUR)
    pods[3] = pod(3, ready_since=ago(3 * SCRAPE))
    assert seen(view([series()] * 3), pods=pods).missing == ("chat-r3-x",)


def test_only_fresh_pods_without_series():
    pods = [pod(i, ready_since=ago(5)) for i in range(4)]
    found = unseen(view([]), pods=pods)
    assert found.reason == Reason.NO_SERIES_YET
    assert "became ready" in found.message


@pytest.mark.parametrize(("missing", "reason"), [(1, None), (2, None), (3, Reason.PARTIAL_SERIES), (4, Reason.NO_SERIES)])
def test_half_of_the_series_is_a_quorum(missing, reason):
    found = look(view([series()] * (4 - missing)))
    if reason is None:
        assert isinstance(found, Demand)
        assert len(found.missing) == missing
    else:
        assert isinstance(found, NoDemand)
        assert found.reason == reason


@pytest.mark.parametrize(("stale", "reason"), [(1, None), (2, None), (3, Reason.PARTIAL_SERIES), (4, Reason.STALE_SERIES)])
def test_stale_series_are_missing_series(stale, reason):
    found = look(view([series(age_seconds=3 * SCRAPE + 1)] * stale + [series()] * (4 - stale)))
    assert (found.reason if isinstance(found, NoDemand) else None) == reason


@pytest.mark.parametrize("age", [None, float("nan"), -1.0])
def test_an_unknown_age_is_stale(age):
    assert unseen(view([series(age_seconds=age)] * 4)).reason == Reason.STALE_SERIES


def test_three_scrapes_old_is_fresh_enough():
    seen(view([series(age_seconds=3 * SCRAPE)] * 4))


@pytest.mark.parametrize("field", ["running", "queued", "generation_tokens_per_second"])
@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1.0])
def test_one_value_that_is_no_number_is_enough(field, value):
    found = unseen(view([replace(series(), **{field: value}), *[series()] * 3]))
    assert found.reason == Reason.NOT_A_NUMBER
    assert "chat-r0-x" in found.message


@pytest.mark.parametrize("field", ["prompt_tokens_per_second", "requests_per_second", "accept_length"])
def test_optional_values_may_be_missing(field):
    seen(view([replace(series(), **{field: None})] * 4))


def test_a_pod_with_empty_series_is_missing_not_nan():
    assert seen(view([PodMetrics(age_seconds=1.0), *[series()] * 3])).missing == ("chat-r0-x",)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MetricsError.TIMEOUT, Reason.PROMETHEUS_TIMEOUT),
        (MetricsError.UNREACHABLE, Reason.PROMETHEUS_UNREACHABLE),
        (MetricsError.REFUSED, Reason.PROMETHEUS_REFUSED),
    ],
)
def test_errors_have_their_reasons(error, reason):
    found = unseen(view([series()] * 4, error=error, error_message="after 5 s"))
    assert found.reason == reason
    assert "after 5 s" in found.message


def test_nothing_was_read():
    assert unseen(None).reason == Reason.NO_SERIES


def test_no_replica_serves():
    assert unseen(view([]), pods=[]).reason == Reason.NO_READY_REPLICA


@pytest.mark.parametrize("field", ["queued", "arrivals_per_second"])
@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_gateway_with_gaps_is_partial(field, value):
    assert unseen(view([series()] * 4, gateway=replace(gateway(), **{field: value}))).reason == Reason.PARTIAL_SERIES


@pytest.mark.parametrize(("scrapes", "reason"), [(2.9, Reason.NO_SERIES_YET), (3, Reason.PARTIAL_SERIES)])
def test_a_gateway_pod_that_has_just_become_ready_has_time_for_its_series(scrapes, reason):
    metrics = view([series()] * 4, gateway=replace(gateway(), arrivals_per_second=None), gateways_changed_at=ago(scrapes * SCRAPE))
    assert unseen(metrics).reason == reason


@pytest.mark.parametrize("age", [None, 31.0])
def test_a_stale_gateway(age):
    assert unseen(view([series()] * 4, gateway=gateway(age_seconds=age))).reason == Reason.STALE_SERIES


HANGING = [series(running=0.0, queued=4.0, rate=0.0), *[series()] * 3]


def test_a_hang_is_named_at_the_second_look():
    assert isinstance(look(view(HANGING), before=state()), Demand), "once may be a long prefill"
    found = unseen(view(HANGING), before=state(queued_samples=1))
    assert (found.reason, found.hang) == (Reason.ENGINE_HANGS, True)
    assert "chat-r0-x" in found.message


def test_the_same_scrape_is_no_second_look():
    assert isinstance(look(view(HANGING), before=state(queued_samples=1, seen_before_seconds=1.0)), Demand)
    assert isinstance(look(view(HANGING), before=state(queued_samples=2, seen_before_seconds=1.0)), NoDemand)


def test_an_engine_that_runs_denies_the_hang():
    before = state(queued_samples=5)
    assert isinstance(look(view(HANGING), before=before, engines={"uid-0": EngineLoad(running=2, waiting=1)}), Demand)
    assert isinstance(look(view(HANGING), before=before, engines={"uid-0": EngineLoad(running=0, waiting=4)}), NoDemand)


def test_a_running_engine_with_a_queue_is_no_hang():
    assert isinstance(look(view([series(running=1.0, queued=4.0)] * 4), before=state(queued_samples=5)), Demand)


def test_accept_length_is_weighted_by_tokens():
    metrics = [series(rate=300.0, accept_length=2.0), series(rate=100.0, accept_length=1.0), series(), series()]
    assert seen(view(metrics)).accept_length == pytest.approx(1.75)
    silent = [series(rate=0.0, accept_length=2.0), series(rate=0.0, accept_length=1.0), series(), series()]
    assert seen(view(silent)).accept_length == pytest.approx(1.5)
    assert seen(view([series()] * 4)).accept_length is None


def test_the_order_of_pods_does_not_matter():
    pods, slots = pods_and_slots(FOUR)
    metrics = view([series(rate=100.0 * i) for i in range(4)])
    assert observe(metrics, pods[::-1], slots[::-1], {}, spec(), PolicyState(), NOW) == seen(metrics)


def test_slots_of_other_names_are_not_ours():
    pods, _ = pods_and_slots(FOUR)
    found = observe(view([series()] * 4), pods, [slot(0)], {}, spec(), PolicyState(), NOW)
    assert isinstance(found, Demand)
    assert len(found.replicas) == 1
