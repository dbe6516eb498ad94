"""The operator's own metrics: set from a plan, counted once, gone with the service."""

from __future__ import annotations

import aiohttp
import pytest

from mtpilot.api.inference_service import MixSpec, Mode
from mtpilot.api.status import DecisionStatus, HistoryEntry, InferenceServiceStatus, SlotPhase, SlotStatus
from mtpilot.model.plan import Plan
from mtpilot.telemetry.endpoint import MetricsEndpoint
from mtpilot.telemetry.metrics import OperatorMetrics

KEY = ("team-a", "chat")
AT = "2026-12-01T12:00:00Z"


def entry(outcome: str, slot: str = "chat-r0", seconds: int | None = 41) -> HistoryEntry:
    return HistoryEntry.model_validate(
        {"at": AT, "slot": slot, "from": "mtp", "to": "batch", "outcome": outcome, "reason": "RequestsQueued", "seconds": seconds}
    )


def status(reason: str = "Steady", at: str = AT, history: tuple[HistoryEntry, ...] = ()) -> InferenceServiceStatus:
    return InferenceServiceStatus(
        recommended=MixSpec(mtp=1, batch=1),
        slots=(
            SlotStatus(name="chat-r0", mode=Mode.MTP, phase=SlotPhase.SERVING),
            SlotStatus(name="chat-r1", mode=Mode.BATCH, phase=SlotPhase.DRAINING),
        ),
        decision=DecisionStatus(reason=reason, at=at),
        history=history,
    )


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


def value(metrics: OperatorMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"namespace": KEY[0], "service": KEY[1], **labels})


def observe(
    metrics: OperatorMetrics, after: InferenceServiceStatus, before: InferenceServiceStatus | None = None, now: float = 100.0
) -> None:
    metrics.observe_plan(*KEY, Plan(status=after, write_status=False), before or InferenceServiceStatus(), now)


def test_slots_and_mix(metrics: OperatorMetrics) -> None:
    observe(metrics, status())
    assert value(metrics, "mtpilot_slots", mode="mtp", phase="Serving") == 1
    assert value(metrics, "mtpilot_slots", mode="batch", phase="Draining") == 1
    assert value(metrics, "mtpilot_slots", mode="batch", phase="Serving") == 0
    assert value(metrics, "mtpilot_recommended_replicas", mode="batch") == 1


def test_a_decision_counts_when_it_changes(metrics: OperatorMetrics) -> None:
    observe(metrics, status(), now=100)
    observe(metrics, status(), now=110)
    assert value(metrics, "mtpilot_decisions_total", reason="Steady") == 1
    assert value(metrics, "mtpilot_decision_timestamp_seconds", reason="Steady") == 100
    observe(metrics, status("MinDwell", "2026-12-01T12:05:00Z"), now=200)
    assert value(metrics, "mtpilot_decisions_total", reason="MinDwell") == 1
    assert value(metrics, "mtpilot_decision_timestamp_seconds", reason="MinDwell") == 200
    assert value(metrics, "mtpilot_decision_timestamp_seconds", reason="Steady") is None


def test_a_flip_counts_once_when_it_ends(metrics: OperatorMetrics) -> None:
    observe(metrics, status(history=(entry("Started", seconds=None),)))
    assert value(metrics, "mtpilot_flips_total", to="batch", outcome="Started") is None
    for _ in range(3):
        observe(metrics, status(history=(entry("Completed"),)))
    assert value(metrics, "mtpilot_flips_total", to="batch", outcome="Completed") == 1
    assert value(metrics, "mtpilot_flip_duration_seconds_sum", to="batch") == 41


def test_flips_of_an_earlier_process_are_not_counted_again(metrics: OperatorMetrics) -> None:
    before = status(history=(entry("Completed"),))
    observe(metrics, before, before=before)
    assert value(metrics, "mtpilot_flips_total", to="batch", outcome="Completed") is None
    observe(metrics, status(history=(entry("Completed"), entry("RolledBack", "chat-r1"))), before=before)
    assert value(metrics, "mtpilot_flips_total", to="batch", outcome="RolledBack") == 1


def predicted() -> InferenceServiceStatus:
    cost = {"mix": {"mtp": 2}, "requestMinutes": "40"}
    moves = [{"mix": {"mtp": 1, "batch": 1}, "requestMinutes": minutes} for minutes in ("30", "20.5")]
    outlook = {"horizon": "1h", "staying": cost, "moves": moves, "priceOfReturn": "3", "best": {"mtp": 1, "batch": 1}}
    decision = {"reason": "Steady", "at": AT, "outlook": outlook}
    return InferenceServiceStatus.model_validate({"decision": decision, "loop": {"kind": "Open", "confidence": "0.9"}})


def test_what_is_predicted_is_told_in_request_seconds_and_gone_when_nothing_is(metrics: OperatorMetrics) -> None:
    observe(metrics, predicted())
    assert value(metrics, "mtpilot_predicted_cost_request_seconds", choice="stay") == 2400
    assert value(metrics, "mtpilot_predicted_cost_request_seconds", choice="move") == 1230
    assert value(metrics, "mtpilot_price_of_return_request_seconds") == 180
    assert value(metrics, "mtpilot_closed_loop_ratio") == pytest.approx(0.1)
    observe(metrics, status())
    assert value(metrics, "mtpilot_predicted_cost_request_seconds", choice="stay") is None
    assert value(metrics, "mtpilot_closed_loop_ratio") is None


def test_a_service_that_is_gone_leaves_no_series(metrics: OperatorMetrics) -> None:
    observe(metrics, status(history=(entry("Completed"),)))
    observe(metrics, predicted())
    metrics.turn_seconds.labels(*KEY).observe(0.1)
    metrics.turn_errors.labels(*KEY, "gather").inc()
    metrics.actions.labels(*KEY, "ApplyObject").inc()
    metrics.last_success.labels(*KEY).set(1)
    metrics.status_writes.labels(*KEY).inc()
    metrics.turn_seconds.labels("team-b", "chat").observe(0.1)
    metrics.forget(*KEY)
    left = {sample.labels.get("namespace") for family in metrics.registry.collect() for sample in family.samples}
    assert left == {None, "team-b"}


async def test_the_endpoint(metrics: OperatorMetrics) -> None:
    observe(metrics, status())
    endpoint = MetricsEndpoint(metrics.registry, "127.0.0.1", 0)
    port = await endpoint.start()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
            assert answer.headers["Content-Type"].startswith("text/plain")
    finally:
        await endpoint.stop()
    assert 'mtpilot_slots{mode="mtp",namespace="team-a",phase="Serving",service="chat"} 1.0' in text
    assert "mtpilot_build_info{" in text
