"""`ports.Metrics`: demand as Prometheus saw it, in five instant queries.

Engines label their own series with `pod_uid` (rendered), so they join with live pods whatever the scrape configuration calls
things; a gateway's series need the usual `namespace` and `pod` of Kubernetes discovery. Whatever is absent, NaN or infinite
stays None: a number that was not measured must not look like a low load.
"""

import asyncio
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from mtpilot.model.metrics import GatewayMetrics, MetricsError, MetricsView, PodMetrics
from mtpilot.model.names import gateway_name
from mtpilot.model.slots import Pod

from .prometheus_access import PrometheusAccess

TIMEOUT_SECONDS = 5.0
RATE_WINDOW_SECONDS = 30.0
_SCRAPES_IN_WINDOW = 4
_THREADS = 5
_BACKENDS = "engines|mtp"  # of render/haproxy.py
_VALUE = "value_of"  # label that tells apart what one query asks for

# NB: read=False leaves a read time-out what it is; a plain 0 would report it as a failed connection.
_NO_RETRIES = Retry(total=0, read=False)

Rows = list[dict[str, Any]]
Answers = dict[str, Rows]


class PrometheusMetrics:
    """Reads one Prometheus (or anything with its query API). `close()` ends its threads."""

    def __init__(
        self,
        url: str,
        *,
        scrape_interval_seconds: float,
        rate_window_seconds: float = RATE_WINDOW_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        access: PrometheusAccess | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._scrape = scrape_interval_seconds
        self._window = max(rate_window_seconds, _SCRAPES_IN_WINDOW * scrape_interval_seconds)
        self._timeout = timeout_seconds
        self._access = access or PrometheusAccess()
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="prometheus")
        self._local = threading.local()

    def close(self, *, wait: bool = False) -> None:
        """End the threads; `wait` for queries under way, each bounded by the time-out."""
        self._threads.shutdown(wait=wait, cancel_futures=True)

    async def observe(self, namespace: str, service: str, pods: Sequence[Pod], *, gateways: int = 0) -> MetricsView:
        """One read of all series of a service; a failure of any query is a failure of the whole.

        Args:
            namespace, service: the service.
            pods: its engine pods.
            gateways: its ready gateway pods: with fewer series than that the gateway's numbers stay None.
        """
        empty = MetricsView(window_seconds=self._window, scrape_interval_seconds=self._scrape, gateways=gateways)
        queries = engine_queries([pod.uid for pod in pods], self._window) if pods else {}
        if gateways:
            queries |= gateway_queries(namespace, service, self._window)
        try:
            answers = await self._ask(queries)
            return replace(empty, pods=pod_metrics(answers), gateway=gateway_metrics(answers, gateways) if gateways else None)
        except (requests.Timeout, TimeoutError) as error:
            return _failed(empty, MetricsError.TIMEOUT, f"no answer within {self._timeout:g}s: {type(error).__name__}")
        except requests.ConnectionError as error:
            return _failed(empty, MetricsError.UNREACHABLE, _cause(error))
        except (OSError, PrometheusApiClientException, KeyError, TypeError, ValueError) as error:  # OSError: also a file of the access
            return _failed(empty, MetricsError.REFUSED, f"{type(error).__name__}: {error}")

    async def _ask(self, queries: Mapping[str, str]) -> Answers:
        loop = asyncio.get_running_loop()
        # NB: the client's own timeout is per socket operation; a server that drips bytes would outlast it.
        async with asyncio.timeout(2 * self._timeout):
            rows = await asyncio.gather(*(loop.run_in_executor(self._threads, self._query, query) for query in queries.values()))
        return dict(zip(queries, rows, strict=True))

    def _query(self, query: str) -> Rows:
        if not hasattr(self._local, "client"):  # NB: a requests session must not be shared between threads
            self._local.client = PrometheusConnect(url=self._url, retry=_NO_RETRIES, session=self._access.session())
        rows: Rows = self._local.client.custom_query(query, timeout=self._timeout)
        return rows


def engine_queries(uids: Sequence[str], window_seconds: float) -> dict[str, str]:
    """Queries about engine pods. Ranks that report the same requests twice (tensor, pipeline) count once, data-parallel ones add up."""
    pods = f'pod_uid=~"{"|".join(sorted(uids))}"'
    window = f"[{round(window_seconds)}s]"

    def gauge(name: str) -> str:
        return f"sum by (pod_uid) (max by (pod_uid, dp_rank) (sglang:{name}{{{pods}}}))"

    def rate(name: str) -> str:
        return f"sum by (pod_uid) (rate(sglang:{name}{{{pods}}}{window}))"

    def pool(kind: str) -> str:
        return "(" + " + ".join(f"sglang:{kind}_{part}_tokens{{{pods}}}" for part in ("available", "evictable", "used")) + ")"

    # The engine sets both pools at once, and leaves that of the states at 0 where the model keeps none.
    states = f"max by (pod_uid) ({pool('mamba')} and {pool('kv')} > 0)"
    # Decoded tokens as they come; generation_tokens_total counts a request's tokens only when it ends.
    decoded = f'sum by (pod_uid) (max by (pod_uid, dp_rank) (rate(sglang:realtime_tokens_total{{mode="decode",{pods}}}{window})))'
    return {
        "engine gauges": _union({"running": gauge("num_running_reqs"), "queued": gauge("num_queue_reqs"), "states": states}),
        "engine ages": f"max by (pod_uid) (time() - timestamp(sglang:num_running_reqs{{{pods}}}))",
        "engine rates": _union(
            {
                "decoded": decoded,
                "generated": rate("generation_tokens_total"),
                "prompted": rate("prompt_tokens_total"),
                "finished": rate("num_requests_total"),
                "verified": rate("spec_verify_calls_total"),
            }
        ),
    }


def gateway_queries(namespace: str, service: str, window_seconds: float) -> dict[str, str]:
    """Queries about gateway pods: the backend's numbers, since the frontend also counts health checks and refused paths."""
    # NB: exactly the two hashes that a Deployment appends; a longer prefix is another service's gateway.
    name = f"{gateway_name(service)}-[a-z0-9]+-[a-z0-9]+"
    of = f'{{namespace="{namespace}",pod=~"{name}",proxy=~"{_BACKENDS}"}}'
    return {
        "gateway gauges": _union(
            {
                "sessions": f"sum by (pod) (haproxy_backend_current_sessions{of})",
                "served": f"sum by (pod) (haproxy_server_current_sessions{of})",
                "age": f"max by (pod) (time() - timestamp(haproxy_backend_current_sessions{of}))",
            }
        ),
        "gateway rates": _union({"arrivals": f"sum by (pod) (rate(haproxy_backend_sessions_total{of}[{round(window_seconds)}s]))"}),
    }


def _union(parts: Mapping[str, str]) -> str:
    return " or ".join(f'label_replace({query}, "{_VALUE}", "{name}", "", "")' for name, query in parts.items())


def pod_metrics(answers: Answers) -> dict[str, PodMetrics]:
    """Metrics by pod uid, from the answers to `engine_queries`."""
    gauges, rates = _table(answers, "engine gauges", "pod_uid"), _table(answers, "engine rates", "pod_uid")
    ages = {row["metric"]["pod_uid"]: _number(row) for row in answers.get("engine ages", ())}
    found = {}
    for uid in sorted({*gauges, *rates, *ages}):
        gauge, rate = gauges.get(uid, {}), rates.get(uid, {})
        decoded = rate.get("decoded")
        found[uid] = PodMetrics(
            age_seconds=ages.get(uid),
            running=gauge.get("running"),
            queued=gauge.get("queued"),
            generation_tokens_per_second=decoded if decoded is not None else rate.get("generated"),
            prompt_tokens_per_second=rate.get("prompted"),
            requests_per_second=rate.get("finished"),
            accept_length=_accept_length(rate),
            state_slots=gauge.get("states"),
        )
    return found


def _accept_length(rate: Mapping[str, float | None]) -> float | None:
    """Tokens per verification, incl. the bonus token; both are counted at the end of a request, so they belong together."""
    generated, verified = rate.get("generated"), rate.get("verified")
    return generated / verified if generated and verified else None


def gateway_metrics(answers: Answers, gateways: int) -> GatewayMetrics:
    """Sums over the gateway pods, from the answers to `gateway_queries`."""
    gauges, rates = _table(answers, "gateway gauges", "pod"), _table(answers, "gateway rates", "pod")
    queues = [_queued(row) for row in gauges.values()]
    sessions = _sum([row.get("sessions") for row in gauges.values()], gateways)
    queued = _sum(queues, gateways)
    ages = [row.get("age") for row in gauges.values()]
    return GatewayMetrics(
        age_seconds=max((age for age in ages if age is not None), default=None),
        in_flight=sessions - queued if sessions is not None and queued is not None else None,
        queued=queued,
        arrivals_per_second=_sum([row.get("arrivals") for row in rates.values()], gateways),
    )


def _queued(row: Mapping[str, float | None]) -> float | None:
    """Requests that wait in a gateway: in its queue, or held while no replica is usable (the hold server never counts any)."""
    sessions, served = row.get("sessions"), row.get("served")
    return max(sessions - served, 0.0) if sessions is not None and served is not None else None


def _sum(values: Sequence[float | None], expected: int) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) >= expected and len(known) == len(values) else None


def _table(answers: Answers, query: str, label: str) -> dict[str, dict[str, float | None]]:
    table: dict[str, dict[str, float | None]] = {}
    for row in answers.get(query, ()):
        table.setdefault(row["metric"][label], {})[row["metric"][_VALUE]] = _number(row)
    return table


def _number(row: Mapping[str, Any]) -> float | None:
    value = float(row["value"][1])
    return value if math.isfinite(value) else None


def _cause(error: Exception) -> str:
    """What urllib3 met, without the URL that requests puts before it: the same text each time."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return str(reason or error)


def _failed(empty: MetricsView, kind: MetricsError, message: str) -> MetricsView:
    return replace(empty, error=kind, error_message=message[:300])
