"""Observe demand: from metrics, pods and engine loads to one `Demand`, or to the reason why there is none.

Missing data is never low load. Fewer than half of the expected series, one NaN, a stale or incomplete gateway, a hanging
engine: each answers `NoDemand` with its reason, and the caller holds. docs/metrics-loss.md lists every case, and a test
holds that table and this module equal.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, NoDemand, ReplicaSample
from mtpilot.model.metrics import GatewayMetrics, MetricsError, MetricsView
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import EngineLoad, Pod, Slot

from .capacity import is_full
from .phrases import names
from .series import (
    EXPECTED_AFTER_SCRAPES,
    STALE_AFTER_SCRAPES,
    Quality,
    Series,
    draining_pods,
    expected_after,
    is_stale,
    join,
    quality,
    serving_pods,
)
from .timing import from_text, number

# Below this many finished requests in the window, tokens per request is noise and the spec's estimate is the better one.
FINISHED_FOR_MEAN_OUTPUT = 10
# Series are a scrape old and a load may have doubled since; what differs by more, and goes on differing, stands still.
CONTRADICTION_REQUESTS = 8
CONTRADICTION_SHARE = 0.5  # of the larger one

_ERRORS = {
    MetricsError.TIMEOUT: (Reason.PROMETHEUS_TIMEOUT, "Prometheus did not answer in time"),
    MetricsError.UNREACHABLE: (Reason.PROMETHEUS_UNREACHABLE, "Prometheus cannot be reached"),
    MetricsError.REFUSED: (Reason.PROMETHEUS_REFUSED, "Prometheus refused the query"),
}


def observe(  # noqa: PLR0917 - the order in which a snapshot is read; callers may name them
    metrics: MetricsView | None,
    pods: Sequence[Pod],
    slots: Sequence[Slot],
    engines: Mapping[str, EngineLoad],
    spec: InferenceServiceSpec,
    state: PolicyState,
    now: datetime,
) -> Demand | NoDemand:
    """Demand at `now`.

    Args:
        metrics: one read of Prometheus; None: it was not read.
        engines: pod uid → `/v1/loads`; gives the effective slots and cross-checks the series, never replaces them.
    """
    if metrics is None:
        return NoDemand(reason=Reason.NO_SERIES, message="metrics have not been read")
    if metrics.error is not None:
        reason, text = _ERRORS[metrics.error]
        return NoDemand(reason=reason, message=f"{text}: {metrics.error_message}" if metrics.error_message else text)
    serving = serving_pods(pods, slots)
    if not serving:
        return NoDemand(reason=Reason.NO_READY_REPLICA, message="no replica is ready and serves: there is no load to observe")
    series = join(metrics, serving, now)
    distrust = _distrust_series(series) or _distrust_gateway(metrics, now) or _hang(series, engines, metrics, state, now)
    return distrust or _demand(metrics, series, draining=draining_pods(pods), engines=engines, spec=spec, now=now)


def _distrust_series(series: Sequence[Series]) -> NoDemand | None:
    good = [item for item in series if item.quality is Quality.GOOD]
    expected = [item for item in series if item.expected]
    bad = [item for item in expected if item.quality is not Quality.GOOD]
    seen = len(expected) - len(bad)
    not_numbers = _pods(bad, Quality.NOT_A_NUMBER)
    stale = _pods(bad, Quality.STALE)
    if not_numbers:
        text = f"a required value of {names(not_numbers)} is NaN, infinite or missing"
        return NoDemand(reason=Reason.NOT_A_NUMBER, message=text)
    if not expected and not good:
        text = f"{len(series)} replicas became ready less than {EXPECTED_AFTER_SCRAPES} scrapes ago: no series yet"
        return NoDemand(reason=Reason.NO_SERIES_YET, message=text)
    if seen * 2 >= len(expected):
        return None
    text = f"series of {seen} of {len(expected)} serving replicas"
    if stale and len(stale) == len(expected):
        text = f"the newest scrape of each of {len(stale)} serving replicas is older than {STALE_AFTER_SCRAPES} scrape intervals"
        return NoDemand(reason=Reason.STALE_SERIES, message=text)
    if seen == 0 and not stale:
        return NoDemand(reason=Reason.NO_SERIES, message=f"Prometheus has no series of any of {len(expected)} serving replicas")
    absent = _pods(bad, Quality.ABSENT)
    details = [f"{kind}: {names(found)}" for kind, found in (("missing", absent), ("stale", stale)) if found]
    return NoDemand(reason=Reason.PARTIAL_SERIES, message=f"{text}, fewer than half ({'; '.join(details)})")


def _pods(series: Sequence[Series], kind: Quality) -> tuple[str, ...]:
    return tuple(item.pod.name for item in series if item.quality is kind)


def _distrust_gateway(view: MetricsView, now: datetime) -> NoDemand | None:
    """No ready gateway: clients cannot ask, so what runs is not what they want. One with gaps: a ready pod is not in the sums.

    NB: no age and no count in a message: it would change, and be written, at every look.
    """
    gateway = view.gateway
    if view.gateways == 0:
        return NoDemand(reason=Reason.GATEWAY_NOT_READY, message="no gateway pod is ready: what clients want cannot be seen")
    if gateway is None:
        return None
    if number(gateway.queued) is None or number(gateway.arrivals_per_second) is None:
        if view.gateways_changed_at is not None and now - view.gateways_changed_at < expected_after(view):
            text = f"a gateway pod became ready less than {EXPECTED_AFTER_SCRAPES} scrapes ago: no series yet"
            return NoDemand(reason=Reason.NO_SERIES_YET, message=text)
        return NoDemand(reason=Reason.PARTIAL_SERIES, message="a ready gateway pod has no series: its queue and arrivals are unknown")
    if is_stale(gateway.age_seconds, view):
        known = number(gateway.age_seconds) is not None
        text = f"newest scrape is older than {STALE_AFTER_SCRAPES} scrape intervals" if known else "series have no known age"
        return NoDemand(reason=Reason.STALE_SERIES, message=f"the gateway's {text}")
    return None


def _hang(
    series: Sequence[Series], engines: Mapping[str, EngineLoad], view: MetricsView, state: PolicyState, now: datetime
) -> NoDemand | None:
    """A replica that runs nothing while requests wait in it, seen twice and not denied by the engine itself.

    One look is not enough: between two prefills of long prompts an engine may show the same for a moment.
    """
    observed = from_text(state.observed_at)
    same_sample = observed is not None and (now - observed).total_seconds() < 0.9 * view.scrape_interval_seconds
    queued_before = state.queued_samples - (1 if same_sample else 0) >= 1
    for item in series:
        queued = number(item.metrics.queued) or 0.0
        if item.quality is not Quality.GOOD or number(item.metrics.running) != 0 or queued == 0 or not queued_before:
            continue
        engine = engines.get(item.pod.uid)
        if engine is None or (engine.running == 0 and engine.waiting > 0):
            text = f"{item.pod.name} runs nothing while requests wait in it: it hangs, its load is not low"
            return NoDemand(reason=Reason.ENGINE_HANGS, message=text, hang=True)
    return None


def _is_contradicted(item: Series, engines: Mapping[str, EngineLoad]) -> bool:
    """Whether the engine's own numbers, a moment old, are far from those of its series. An engine that is silent denies nothing."""
    engine = engines.get(item.pod.uid)
    if engine is None:
        return False
    seen = (number(item.metrics.running) or 0.0) + (number(item.metrics.queued) or 0.0)
    return abs(seen - engine.in_flight) > max(CONTRADICTION_REQUESTS, CONTRADICTION_SHARE * max(seen, engine.in_flight))


def _sample(item: Series, engines: Mapping[str, EngineLoad], spec: InferenceServiceSpec) -> ReplicaSample:
    engine = engines.get(item.pod.uid)
    effective = engine.effective_max_running_requests if engine is not None else None
    configured = spec.modes.mtp if item.pod.mode is Mode.MTP else spec.modes.batch
    return ReplicaSample(
        slot=item.pod.slot,
        mode=item.pod.mode,
        digest=item.pod.digest,
        running=number(item.metrics.running) or 0.0,
        queued=number(item.metrics.queued) or 0.0,
        tokens_per_second=number(item.metrics.generation_tokens_per_second) or 0.0,
        slots=effective or configured.max_running_requests,
        slots_reported=bool(effective),
        accept_length=number(item.metrics.accept_length),
    )


def _demand(
    view: MetricsView,
    series: Sequence[Series],
    *,
    draining: Sequence[Pod],
    engines: Mapping[str, EngineLoad],
    spec: InferenceServiceSpec,
    now: datetime,
) -> Demand:
    good = [item for item in series if item.quality is Quality.GOOD]
    samples = tuple(_sample(item, engines, spec) for item in good)
    leaving = [view.pods[pod.uid] for pod in draining if quality(view.pods.get(pod.uid), view) is Quality.GOOD]
    served = sum(sample.tokens_per_second for sample in samples) + sum(number(m.generation_tokens_per_second) or 0.0 for m in leaving)
    gateway = view.gateway or GatewayMetrics()
    queued = sum(sample.queued for sample in samples) + (number(gateway.queued) or 0.0)
    saturated = queued > 0 or all(is_full(spec, sample) for sample in samples)
    arrivals = number(gateway.arrivals_per_second)
    finished = _mean_finished_output(view, good)
    mean_output = float(spec.workload.output_tokens) if finished is None else finished
    arriving = None if arrivals is None else arrivals * mean_output
    return Demand(
        at=now,
        replicas=samples,
        served_tokens_per_second=served,
        demand_tokens_per_second=asked_for(served, arriving, saturated=saturated, estimated=finished is None),
        in_flight=sum(sample.running for sample in samples) + sum(number(m.running) or 0.0 for m in leaving),
        queued=queued,
        mean_output_tokens=mean_output,
        saturated=saturated,
        accept_length=_accept_length(samples),
        missing=tuple(item.pod.name for item in series if item.expected and item.quality is not Quality.GOOD),
        contradicted=tuple(item.pod.name for item in good if _is_contradicted(item, engines)),
        scrape_interval_seconds=view.scrape_interval_seconds,
    )


def asked_for(served: float, arriving: float | None, *, saturated: bool, estimated: bool) -> float:
    """tok/s that clients ask for.

    As long as nothing waits it is what is served. Else it is what arrives: the rate served stands at the cap while a queue grows, and
    while it shrinks as well, when far less may be asked for.

    Args:
        arriving: tok/s, from arrivals; None: unknown. estimated: it rests on the spec's estimate of a request's tokens, so that
            what is served is the better lower bound.
    """
    if not saturated or arriving is None:
        return served
    return max(served, arriving) if estimated else arriving


def _mean_finished_output(view: MetricsView, good: Sequence[Series]) -> float | None:
    """Output tokens of a request, as finished in the window; None where too few have finished."""
    rates = [number(item.metrics.requests_per_second) for item in good]
    finished = sum(rate for rate in rates if rate is not None)
    if None in rates or finished * view.window_seconds < FINISHED_FOR_MEAN_OUTPUT:
        return None
    return sum(number(item.metrics.generation_tokens_per_second) or 0.0 for item in good) / finished


def _accept_length(samples: Sequence[ReplicaSample]) -> float | None:
    """Mean over the mtp replicas, weighted by their tokens; None where none has one."""
    known = [(s.accept_length, s.tokens_per_second) for s in samples if s.mode is Mode.MTP and s.accept_length is not None]
    total = sum(weight for _, weight in known)
    if not known:
        return None
    return sum(length * weight for length, weight in known) / total if total > 0 else sum(length for length, _ in known) / len(known)
