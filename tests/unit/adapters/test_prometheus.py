"""Numbers from Prometheus: what it answers becomes numbers or None, what it fails at becomes a kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mtpilot.adapters.prometheus import PrometheusMetrics, engine_queries, gateway_metrics, gateway_queries, pod_metrics
from mtpilot.model.metrics import GatewayMetrics, MetricsError, PodMetrics

from .test_sglang import pod


def row(value: str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1796137345.4, value]}


def engine_answers(uid: str = "u", **values: str) -> dict[str, list[dict[str, Any]]]:
    gauges = {key: values[key] for key in ("running", "queued", "states") if key in values}
    rates = {key: value for key, value in values.items() if key not in {*gauges, "age"}}
    return {
        "engine gauges": [row(value, pod_uid=uid, value_of=key) for key, value in gauges.items()],
        "engine rates": [row(value, pod_uid=uid, value_of=key) for key, value in rates.items()],
        "engine ages": [row(values["age"], pod_uid=uid)] if "age" in values else [],
    }


def gateway_answers(*gateways: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    gauges: list[dict[str, Any]] = []
    rates: list[dict[str, Any]] = []
    for index, values in enumerate(gateways):
        for key, value in values.items():
            (rates if key == "arrivals" else gauges).append(row(value, pod=f"g{index}", value_of=key))
    return {"gateway gauges": gauges, "gateway rates": rates}


WHOLE = {"sessions": "10", "served": "8", "age": "1.5", "arrivals": "3.5"}


def test_a_whole_pod() -> None:
    answers = engine_answers(
        running="8", queued="2", age="0.7", decoded="1200.5", generated="1100", prompted="300", finished="4.5", verified="550"
    )
    assert pod_metrics(answers) == {
        "u": PodMetrics(
            age_seconds=0.7,
            running=8,
            queued=2,
            generation_tokens_per_second=1200.5,
            prompt_tokens_per_second=300,
            requests_per_second=4.5,
            accept_length=2.0,
        )
    }


def test_states_that_an_engine_has_none_of_are_not_states_that_nobody_reported() -> None:
    assert pod_metrics(engine_answers(running="8", states="0"))["u"].state_slots == 0
    assert pod_metrics(engine_answers(running="8"))["u"].state_slots is None


def test_without_the_running_counter_the_one_of_ended_requests_serves() -> None:
    assert pod_metrics(engine_answers(generated="1100"))["u"].generation_tokens_per_second == 1100


@pytest.mark.parametrize("nonsense", ["NaN", "+Inf", "-Inf"])
def test_what_is_no_number_is_none_and_not_zero(nonsense: str) -> None:
    found = pod_metrics(engine_answers(running=nonsense, queued="1", decoded=nonsense, age=nonsense))["u"]
    assert found == PodMetrics(queued=1)


def test_nothing_is_nothing() -> None:
    assert pod_metrics({}) == {}
    assert pod_metrics(engine_answers(running="0", queued="0", age="1"))["u"].generation_tokens_per_second is None


@pytest.mark.parametrize(("generated", "verified"), [("0", "0"), ("5", "0"), ("NaN", "3"), ("0", "3")])
def test_no_accept_length_without_verifications(generated: str, verified: str) -> None:
    assert pod_metrics(engine_answers(generated=generated, verified=verified))["u"].accept_length is None


def test_gateways_add_up() -> None:
    found = gateway_metrics(gateway_answers(WHOLE, {**WHOLE, "age": "0.5", "served": "10"}), 2)
    assert found == GatewayMetrics(age_seconds=1.5, in_flight=18, queued=2, arrivals_per_second=7)


def test_without_a_usable_replica_everything_waits() -> None:
    found = gateway_metrics(gateway_answers({**WHOLE, "served": "0"}), 1)
    assert (found.in_flight, found.queued) == (0, 10)


def test_streams_of_draining_replicas_do_not_wait() -> None:
    found = gateway_metrics(gateway_answers({**WHOLE, "served": "10"}), 1)
    assert (found.in_flight, found.queued) == (10, 0)


@pytest.mark.parametrize(
    "answers", [gateway_answers(), gateway_answers(WHOLE), gateway_answers(WHOLE, {**WHOLE, "served": "NaN", "arrivals": "NaN"})]
)
def test_a_missing_gateway_leaves_the_sums_unknown(answers: dict[str, Any]) -> None:
    found = gateway_metrics(answers, 2)
    assert (found.queued, found.arrivals_per_second) == (None, None)


def test_a_gateway_of_a_service_with_a_longer_name_is_not_counted() -> None:
    query = gateway_queries("n", "chat", 30)["gateway gauges"]
    assert 'pod=~"chat-gateway-[a-z0-9]+-[a-z0-9]+"' in query
    assert 'namespace="n"' in query


def test_rates_are_taken_over_the_window() -> None:
    assert "[45s]" in engine_queries(["u"], 45.0)["engine rates"]


@asynccontextmanager
async def prometheus(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], timeout_seconds: float = 5.0
) -> AsyncIterator[PrometheusMetrics]:
    app = web.Application()
    app.router.add_get("/api/v1/query", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    metrics = PrometheusMetrics(f"http://127.0.0.1:{runner.addresses[0][1]}/", scrape_interval_seconds=5, timeout_seconds=timeout_seconds)
    try:
        yield metrics
    finally:
        await asyncio.to_thread(metrics.close, wait=True)
        await runner.cleanup()


async def test_an_empty_answer_is_no_error_and_no_number() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    async with prometheus(handler) as metrics:
        found = await metrics.observe("n", "chat", [pod("a")], gateways=1)
    assert found.error is None
    assert found.pods == {}
    assert found.gateway == GatewayMetrics()
    assert (found.window_seconds, found.scrape_interval_seconds) == (30, 5)


async def test_without_pods_and_gateways_nothing_is_asked() -> None:
    async def handler(_: web.Request) -> web.Response:
        raise AssertionError("asked")

    async with prometheus(handler) as metrics:
        found = await metrics.observe("n", "chat", [])
    assert found.gateways == 0
    assert (found.error, found.pods, found.gateway) == (None, {}, None)


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=503, text="overloaded"),
        web.Response(status=400, text='{"status":"error","error":"parse error"}'),
        web.Response(text="<html>"),
        web.Response(text='{"status":"success"}'),
    ],
    ids=["503", "400", "html", "no data"],
)
async def test_refusals(answer: web.Response) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=answer.status, body=answer.body)

    async with prometheus(handler) as metrics:
        found = await metrics.observe("n", "chat", [pod("a")])
    assert found.error is MetricsError.REFUSED
    assert found.error_message
    assert found.pods == {}


async def test_a_server_that_does_not_answer_in_time() -> None:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async with prometheus(handler, timeout_seconds=0.3) as metrics, asyncio.timeout(30):
        found = await metrics.observe("n", "chat", [pod("a")])
    assert found.error is MetricsError.TIMEOUT


async def test_a_server_that_drips_does_not_hold_the_turn_up() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(20):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    async with prometheus(handler, timeout_seconds=0.3) as metrics, asyncio.timeout(30):
        found = await metrics.observe("n", "chat", [pod("a")])
    assert found.error is MetricsError.TIMEOUT


async def test_no_server() -> None:
    metrics = PrometheusMetrics("http://127.0.0.1:9", scrape_interval_seconds=5, timeout_seconds=0.5)
    try:
        found = await metrics.observe("n", "chat", [pod("a")])
    finally:
        metrics.close()
    assert found.error is MetricsError.UNREACHABLE
    assert found.error_message is not None
    assert "refused" in found.error_message
    assert "query" not in found.error_message
