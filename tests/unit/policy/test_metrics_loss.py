"""docs/metrics-loss.md says what the operator does; here each of its rows is done."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Decision, Mix, NoDemand
from mtpilot.model.metrics import MetricsError, MetricsView, PodMetrics
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import EngineLoad, Pod
from mtpilot.policy.decide import decide
from mtpilot.policy.demand import observe
from mtpilot.policy.timing import to_text
from tests.unit.policy.builders import NOW, SCRAPE, ago, fleet, gateway, pod, pods_and_slots, series, spec, state, view

DOC = Path(__file__).parents[3] / "docs" / "metrics-loss.md"
MIX = Mix(mtp=2, batch=2)


def rows() -> dict[str, tuple[str, str]]:
    """Case → (reason or "-", moves), as the document has them."""
    lines = [line for line in DOC.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cell[0]: (cell[2], cell[3]) for cell in cells if cell[0] not in ("Case", "---")}


@dataclass(frozen=True, kw_only=True)
class World:
    metrics: MetricsView | None
    pods: list[Pod] = field(default_factory=lambda: pods_and_slots(MIX)[0])
    engines: dict[str, EngineLoad] = field(default_factory=dict)


Fault = Callable[[MetricsView], World]


def all_pods(**changes) -> Fault:
    return lambda good: World(metrics=replace(good, pods={uid: replace(item, **changes) for uid, item in good.pods.items()}))


def some(count: int, **changes) -> Fault:
    """The first `count` pods' series are changed."""

    def fault(good: MetricsView) -> World:
        changed = {uid: replace(good.pods[uid], **changes) for uid in list(good.pods)[:count]}
        return World(metrics=replace(good, pods=good.pods | changed))

    return fault


def without(count: int) -> Fault:
    return lambda good: World(metrics=replace(good, pods=dict(list(good.pods.items())[count:])))


def at_gateway(**changes) -> Fault:
    return lambda good: World(metrics=replace(good, gateway=replace(good.gateway or gateway(), **changes)))


def view_with(**changes) -> Fault:
    return lambda good: World(metrics=replace(good, **changes))


def fresh(count: int) -> Fault:
    def fault(good: MetricsView) -> World:
        pods = [replace(item, ready_since=ago(5)) if i < count else item for i, item in enumerate(pods_and_slots(MIX)[0])]
        return World(metrics=replace(good, pods=dict(list(good.pods.items())[count:])), pods=pods)

    return fault


def dead(good: MetricsView) -> World:
    return World(metrics=replace(good, pods={**good.pods, "uid-gone": series(running=float("nan"), rate=9e9)}))


NOTHING = {"running": None, "queued": None, "generation_tokens_per_second": None}
CASES: dict[str, Fault] = {
    "not read": lambda _: World(metrics=None),
    "timeout": view_with(error=MetricsError.TIMEOUT),
    "unreachable": view_with(error=MetricsError.UNREACHABLE),
    "refused": view_with(error=MetricsError.REFUSED),
    "empty": view_with(pods={}, gateway=None),
    "empty values": all_pods(**NOTHING),
    "NaN": some(1, running=float("nan")),
    "infinite": some(1, generation_tokens_per_second=float("inf")),
    "value missing": some(1, queued=None),
    "stale": all_pods(age_seconds=3 * SCRAPE + 1),
    "age unknown": all_pods(age_seconds=None),
    "most missing": without(3),
    "most stale": some(3, age_seconds=3 * SCRAPE + 1),
    "one missing": without(1),
    "one stale": some(1, age_seconds=3 * SCRAPE + 1),
    "frozen": lambda good: World(metrics=good, engines={"uid-1": EngineLoad(running=60, waiting=20)}),
    "gateway partial": at_gateway(queued=None, arrivals_per_second=None),
    "fresh gateway": lambda good: World(
        metrics=replace(good, gateway=replace(gateway(), queued=None, arrivals_per_second=None), gateways_changed_at=ago(2 * SCRAPE))
    ),
    "gateway stale": at_gateway(age_seconds=3 * SCRAPE + 1),
    "hang": some(1, running=0.0, queued=3.0, generation_tokens_per_second=0.0),
    "no gateway": view_with(gateway=None, gateways=0),
    "no replica": lambda good: World(metrics=good, pods=[pod(i, ready=False) for i in range(4)]),
    "fresh pods only": fresh(4),
    "one fresh pod": fresh(1),
    "dead pod": dead,
    "optional value missing": all_pods(accept_length=None, prompt_tokens_per_second=None, requests_per_second=None),
    "idle": lambda good: World(metrics=good),
}

NEARLY_FROZEN = {"contradicted_samples": 2}
OVERLOADED = state(smoothed=9000.0, pressure="Up", for_seconds=600, queued_samples=5).model_copy(update=NEARLY_FROZEN)
QUIET = state(smoothed=100.0, pressure="Down", for_seconds=600, queued_samples=1).model_copy(update=NEARLY_FROZEN)
FROZEN = {"contradicted_samples": 3, "observed_at": to_text(NOW), "pressure": None, "pressure_since": None}


def overload() -> MetricsView:
    return view([series(running=24.0, queued=9.0, rate=2000.0)] * 4, gateway=gateway(queued=9.0, arrivals=60.0))


def low(rate: float) -> MetricsView:
    return view([series(running=rate / 50, rate=rate)] * 4, gateway=gateway(arrivals=0.1))


def answer(fault: Fault, good: MetricsView, before: PolicyState) -> tuple[Decision, NoDemand | None]:
    world = fault(good)
    demand = observe(world.metrics, world.pods, pods_and_slots(MIX)[1], world.engines, spec(), before, NOW)
    found = decide(spec=spec(), demand=demand, fleet=fleet(MIX), state=before, now=NOW)
    return found, demand if isinstance(demand, NoDemand) else None


def test_the_table_and_the_cases_are_the_same():
    assert list(rows()) == list(CASES)


def test_without_a_fault_both_loads_move_the_fleet():
    """Else the rows below would prove nothing."""
    assert answer(lambda good: World(metrics=good), overload(), OVERLOADED)[0].move_to is Mode.BATCH
    assert answer(lambda good: World(metrics=good), low(50.0), QUIET)[0].move_to is Mode.MTP


@pytest.mark.parametrize("case", list(CASES))
def test_the_row_holds(case):
    reason, moves = rows()[case]
    high, high_lost = answer(CASES[case], overload(), OVERLOADED)
    quiet, quiet_lost = answer(CASES[case], low(0.0 if case == "idle" else 50.0), QUIET)
    assert high.move_to is (None if moves == "none" else Mode.BATCH)
    assert quiet.move_to is (Mode.MTP if moves == "all" else None)
    if moves == "none":
        assert (high.reason, quiet.reason) == (reason, reason)
        assert high.recommended == quiet.recommended == MIX
        change = FROZEN if case == "frozen" else {}
        assert (high.state, quiet.state) == (OVERLOADED.model_copy(update=change), QUIET.model_copy(update=change))
    elif moves == "to batch":
        assert quiet.reason == reason
    assert (quiet_lost is not None and quiet_lost.hang) is (case == "hang")
    assert (high_lost is not None and high_lost.hang) is (case == "hang")


@pytest.mark.parametrize(
    ("running", "waiting", "answers", "held"),
    [
        (60, 0, True, True),  # the series stood still when the load was lower
        (0, 0, True, True),  # … or higher
        (30, 0, True, False),  # a load that rises between the scrape and the look
        (60, 0, False, False),  # an engine that is silent denies nothing
    ],
)
def test_series_that_the_engine_contradicts_again_and_again_are_frozen(running: int, waiting: int, answers: bool, held: bool):
    engines = {"uid-1": EngineLoad(running=running, waiting=waiting)} if answers else {}
    before = state(smoothed=2000.0)
    reasons = []
    for look in range(4):
        at = NOW + timedelta(seconds=SCRAPE * look)
        for again in (0, 1):  # a second look at the same sample counts for nothing
            metrics = view([series(running=24.0)] * 4, gateway=gateway())
            demand = observe(metrics, *pods_and_slots(MIX), engines, spec(), before, at)
            made = decide(spec=spec(), demand=demand, fleet=fleet(MIX), state=before, now=at + timedelta(seconds=again))
            before = made.state
        reasons.append(made.reason == Reason.STALE_SERIES)
    assert reasons == ([False, False, True, True] if held else [False] * 4)
    agreed = observe(metrics, *pods_and_slots(MIX), {"uid-1": EngineLoad(running=24, waiting=0)}, spec(), before, at)
    after = decide(spec=spec(), demand=agreed, fleet=fleet(MIX), state=before, now=at + timedelta(seconds=SCRAPE))
    assert after.reason != Reason.STALE_SERIES
    assert after.state.contradicted_samples == 0


def test_the_reasons_in_the_table_exist():
    assert {reason for reason, _ in rows().values()} - {"-"} <= {str(reason) for reason in Reason}


def test_pinned_does_not_wait_for_metrics():
    config = spec(policy={"mode": "Pinned", "pinned": {"mtp": 4, "batch": 0}})
    demand = observe(None, pods_and_slots(MIX)[0], pods_and_slots(MIX)[1], {}, config, OVERLOADED, NOW)
    assert decide(spec=config, demand=demand, fleet=fleet(MIX), state=OVERLOADED, now=NOW).move_to is Mode.MTP


def test_a_value_that_is_all_gone_is_an_absent_pod():
    metrics = view([PodMetrics(), *[series()] * 3])
    demand = observe(metrics, *pods_and_slots(MIX), {}, spec(), QUIET, NOW)
    assert not isinstance(demand, NoDemand)
    assert demand.missing == ("chat-r0-x",)
