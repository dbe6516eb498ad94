"""What holds for every history of loads, losses and looks, however irregular."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import DecisionStatus, PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Mix, NoDemand
from mtpilot.model.metrics import GatewayMetrics, MetricsError, MetricsView, PodMetrics
from mtpilot.policy.decide import decide
from mtpilot.policy.demand import observe
from mtpilot.policy.guards import dwell_seconds, flips_per_hour
from mtpilot.policy.timing import seconds
from tests.examples import examples
from tests.property.policy.toy_fleet import MTP_CAPACITY, ToyFleet
from tests.unit.policy.builders import NOW, calibration, fleet, modes_of, pods_and_slots, spec, state

QUICK = examples()
SLOW = examples(10, suppress=[HealthCheck.too_slow, HealthCheck.data_too_large])
REQUIRED = ("running", "queued", "generation_tokens_per_second")

values = st.floats(min_value=0, max_value=1e5)
no_numbers = st.sampled_from([None, float("nan"), float("inf"), float("-inf"), -1.0])
good_pods = st.builds(
    PodMetrics,
    age_seconds=st.floats(min_value=0, max_value=30),
    running=values,
    queued=values,
    generation_tokens_per_second=values,
    requests_per_second=st.none() | values,
)
gateways = st.none() | st.builds(GatewayMetrics, age_seconds=st.floats(0, 30), queued=values, arrivals_per_second=values)
mixes = st.integers(0, 6).flatmap(lambda n: st.builds(Mix, mtp=st.just(n), batch=st.integers(0 if n else 1, 6)))
states = st.builds(
    state,
    smoothed=st.none() | values,
    capacity=st.none() | st.floats(1, 5000),
    pressure=st.sampled_from([None, "Up", "Down"]),
    for_seconds=st.floats(0, 1000),
    queued_samples=st.integers(0, 10),
    seen_before_seconds=st.floats(0, 300),
)


def views(mix: Mix) -> st.SearchStrategy[MetricsView]:
    return st.builds(
        lambda pods, gateway: MetricsView(
            window_seconds=60.0, scrape_interval_seconds=10.0, pods={f"uid-{i}": item for i, item in enumerate(pods)}, gateway=gateway
        ),
        st.lists(good_pods, min_size=mix.total, max_size=mix.total),
        gateways,
    )


profiles = st.sampled_from([None, calibration(), calibration(verdict=Verdict.MTP_ONLY)])


def answer(view: MetricsView | None, mix: Mix, before: PolicyState, profile: Calibration | None = None):
    pods, slots = pods_and_slots(mix)
    config = spec(replicas=mix.total)
    demand = observe(view, pods, slots, {}, config, before, NOW)
    return demand, decide(config, demand, fleet(mix), before, NOW, profile)


@QUICK
@given(st.data())
def test_a_value_that_is_no_number_never_moves_anything(data):
    mix = data.draw(mixes)
    view = data.draw(views(mix))
    uid = f"uid-{data.draw(st.integers(0, mix.total - 1))}"
    field = data.draw(st.sampled_from(REQUIRED))
    broken = replace(view.pods[uid], **{field: data.draw(no_numbers)})
    demand, decision = answer(replace(view, pods=view.pods | {uid: broken}), mix, data.draw(states), data.draw(profiles))
    assert isinstance(demand, NoDemand)
    assert decision.move_to is None


@QUICK
@given(st.data())
def test_without_a_profile_what_is_not_seen_never_moves_towards_mtp(data):
    mix = data.draw(mixes)
    view = data.draw(views(mix))
    gone = data.draw(st.sets(st.sampled_from(sorted(view.pods)), min_size=1))
    _, decision = answer(replace(view, pods={u: m for u, m in view.pods.items() if u not in gone}), mix, data.draw(states))
    assert decision.move_to is not Mode.MTP


@QUICK
@given(mixes, states, st.sampled_from([None, *MetricsError]), profiles)
def test_no_view_never_moves_anything(mix, before, error, profile):
    view = None if error is None else MetricsView(window_seconds=60.0, scrape_interval_seconds=10.0, error=error)
    _, decision = answer(view, mix, before, profile)
    assert decision.move_to is None
    assert decision.state == before


@QUICK
@given(st.data())
def test_the_same_look_has_the_same_answer(data):
    mix = data.draw(mixes)
    view, before, profile = data.draw(views(mix)), data.draw(states), data.draw(profiles)
    assert answer(view, mix, before, profile) == answer(view, mix, before, profile)


@QUICK
@given(st.data())
def test_every_answer_can_be_written_to_the_status(data):
    mix = data.draw(mixes)
    _, decision = answer(data.draw(views(mix)), mix, data.draw(states), data.draw(profiles))
    DecisionStatus(reason=decision.reason, message=decision.message, would_change=decision.would_change)
    assert PolicyState.model_validate(decision.state.model_dump(by_alias=True)) == decision.state
    assert decision.recommended.total == mix.total
    if decision.move_to is not None:
        assert mix.count(decision.move_to.other) > 0


@st.composite
def specs(draw: st.DrawFn) -> InferenceServiceSpec:
    replicas = draw(st.integers(2, 5))
    least_mtp = draw(st.integers(0, replicas // 2))
    return spec(
        replicas=replicas,
        policy={
            "minDwell": draw(st.sampled_from(["0s", "1m", "10m"])),
            "maxFlipsPerHour": draw(st.sampled_from([0, 1, 4, 120])),
            "minReplicas": {"mtp": least_mtp, "batch": draw(st.integers(0, replicas - least_mtp))},
            "stabilization": draw(st.sampled_from([{"up": "30s", "down": "3m"}, {"up": "0s", "down": "10s"}])),
        },
    )


def lost(view: MetricsView) -> MetricsView:
    return replace(view, pods={})


def torn(view: MetricsView) -> MetricsView:
    return replace(view, pods={uid: replace(item, running=None) for uid, item in view.pods.items()})


DAMAGES: list[Callable[[MetricsView], MetricsView | None] | None] = [None, None, None, lost, torn, lambda _: None]
histories = st.lists(
    st.tuples(st.floats(0, 2), st.sampled_from([1.0, 7.0, 10.0, 30.0, 120.0, 2000.0]), st.sampled_from(DAMAGES), st.integers(1, 12)),
    min_size=3,
    max_size=12,
)


def play(config: InferenceServiceSpec, history, start: list[Mode]) -> ToyFleet:
    toy = ToyFleet(config, list(start))
    for share, gap, damage, times in history:
        for _ in range(times):
            toy.tick(share * MTP_CAPACITY * len(start), gap, damage)
    return toy


@SLOW
@given(specs(), histories, st.data())
def test_no_history_breaks_a_limit(config, history, data):
    start = data.draw(st.lists(st.sampled_from(list(Mode)), min_size=config.replicas, max_size=config.replicas))
    toy = play(config, history, start)
    policy = config.policy
    times = [flip.at for flip in toy.flips]
    dwell = timedelta(seconds=dwell_seconds(config, toy.fleet_state()))
    assert all(later.at - earlier.at >= dwell for earlier, later in pairwise(toy.flips) if later.to is not earlier.to)
    for at in times:
        assert sum(at - timedelta(hours=1) < other <= at for other in times) <= flips_per_hour(config, config.replicas)
    away = timedelta(seconds=toy.flip_seconds)
    assert all(later - earlier >= away for earlier, later in pairwise(times)), "one move in flight"
    for flip in toy.flips:
        after = flip.mix.moved(flip.to)
        for mode, least in ((Mode.MTP, policy.min_replicas.mtp), (Mode.BATCH, policy.min_replicas.batch)):
            assert after.count(mode) >= min(least, flip.mix.count(mode)), "never further below a minimum"
    assert play(config, history, start).decisions == toy.decisions


@SLOW
@given(st.floats(0, 1.6), st.integers(1, 5), st.integers(0, 5), st.booleans(), st.sampled_from([7.0, 10.0, 20.0]))
def test_constant_load_never_moves_a_replica_back(share, replicas, batch, closed, gap):
    mix = Mix(mtp=replicas - min(batch, replicas), batch=min(batch, replicas))
    config = spec(replicas=replicas, policy={"minDwell": "1m", "maxFlipsPerHour": 120}, rollout={"allowDowntime": True})
    toy = ToyFleet(config, list(modes_of(mix)), flip_seconds=60.0, closed=closed)
    load = share * 24 * replicas if closed else share * MTP_CAPACITY * replicas
    for _ in range(240):
        toy.tick(load, gap)
    assert len({flip.to for flip in toy.flips}) <= 1, [(str(flip.at), flip.to) for flip in toy.flips]
    assert len(toy.flips) <= replicas


@SLOW
@given(st.floats(0, 0.9))
def test_low_constant_load_never_leaves_mtp(share):
    toy = ToyFleet(spec(), [Mode.MTP] * 4)
    for _ in range(200):
        toy.tick(share * MTP_CAPACITY * 4)
    assert toy.flips == []


def test_seconds_of_the_defaults():
    """The properties above rest on these."""
    assert seconds(spec().policy.min_dwell) == 600
    assert seconds(spec().policy.stabilization.up) == 30
