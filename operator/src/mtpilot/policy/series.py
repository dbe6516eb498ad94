"""Which series can be trusted: pods that serve now, joined with their metrics by uid.

A dead pod's series is dropped, a pod that has only just become ready is not expected yet, and a value that is absent, NaN,
infinite or negative is *no data*. Nothing here ever turns into zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mtpilot.model.metrics import MetricsView, PodMetrics
from mtpilot.model.slots import Pod, Slot

from .timing import number

STALE_AFTER_SCRAPES = 3
EXPECTED_AFTER_SCRAPES = 3


class Quality(StrEnum):
    GOOD = "good"
    ABSENT = "absent"
    STALE = "stale"
    NOT_A_NUMBER = "not a number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One serving pod with its metrics; `expected` is False until three scrapes after it became ready."""

    pod: Pod
    metrics: PodMetrics
    quality: Quality
    expected: bool


def serving_pods(pods: Iterable[Pod], slots: Sequence[Slot]) -> tuple[Pod, ...]:
    """Ready pods that take new requests, by name. A pod of a slot that is gone is nobody's."""
    known = {slot.name for slot in slots}
    alive = (pod for pod in pods if pod.ready and pod.serving and not pod.terminating and not pod.finished)
    return tuple(sorted((pod for pod in alive if pod.slot in known), key=lambda pod: (pod.name, pod.uid)))


def draining_pods(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Ready pods that only finish what they have: their tokens are still demand."""
    return tuple(pod for pod in pods if pod.ready and not pod.finished and (pod.terminating or not pod.serving))


def is_stale(age_seconds: float | None, view: MetricsView) -> bool:
    """An unknown age is stale."""
    age = number(age_seconds)
    return age is None or age > STALE_AFTER_SCRAPES * view.scrape_interval_seconds


def quality(metrics: PodMetrics | None, view: MetricsView) -> Quality:
    """What the series of one pod are worth; running, queued and the generation rate are required."""
    if metrics is None or (metrics.running, metrics.queued, metrics.generation_tokens_per_second) == (None, None, None):
        return Quality.ABSENT
    if is_stale(metrics.age_seconds, view):
        return Quality.STALE
    required = (metrics.running, metrics.queued, metrics.generation_tokens_per_second)
    return Quality.NOT_A_NUMBER if any(number(value) is None for value in required) else Quality.GOOD


def expected_after(view: MetricsView) -> timedelta:
    """How long after it became ready a pod may have no series: a rate takes two scrapes, and Prometheus has to find it first."""
    return timedelta(seconds=EXPECTED_AFTER_SCRAPES * view.scrape_interval_seconds)


def join(view: MetricsView, serving: Iterable[Pod], now: datetime) -> tuple[Series, ...]:
    """Series of each serving pod, in the pods' order."""
    grace = expected_after(view)
    return tuple(
        Series(
            pod=pod,
            metrics=view.pods.get(pod.uid) or PodMetrics(),
            quality=quality(view.pods.get(pod.uid), view),
            expected=pod.ready_since is None or now - pod.ready_since >= grace,
        )
        for pod in serving
    )
