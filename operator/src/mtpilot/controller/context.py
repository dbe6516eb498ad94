"""What every part of the controller shares, made once at start and handed on explicitly."""

from dataclasses import dataclass

from mtpilot.model.snapshot import DEFAULT_IMAGES, GatewayImages
from mtpilot.ports import Clock, Cluster, Engine, Metrics

Key = tuple[str, str]  # namespace, name

PERIOD_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The outside world."""

    cluster: Cluster
    metrics: Metrics
    engine: Engine
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the controller was asked to run.

    namespaces: the ones to serve; empty means all. period_seconds: a service is looked at at least that often. images: of gateway pods.
    """

    namespaces: tuple[str, ...] = ()
    period_seconds: float = PERIOD_SECONDS
    host: str = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the pod
    liveness_port: int | None = None
    metrics_port: int | None = None
    images: GatewayImages = DEFAULT_IMAGES
