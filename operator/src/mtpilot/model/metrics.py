"""What Prometheus said, as plain numbers with their age.

A value that is NaN, infinite or absent never becomes a number here: the adapter leaves it None, and None means *no data*.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class MetricsError(StrEnum):
    """Why there is no metrics view at all."""

    TIMEOUT = "Timeout"
    UNREACHABLE = "Unreachable"
    REFUSED = "Refused"  # an HTTP error or a query error


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMetrics:
    """Series of one pod, joined by pod uid.

    running, queued: requests. generation_tokens_per_second: rate of the counter over the window. age_seconds: since the
    newest scrape. requests_per_second: finished requests. accept_length: incl. the bonus token, over the window.
    state_slots: recurrent states that the engine has memory for; 0: its model keeps none.
    """

    age_seconds: float | None = None
    running: float | None = None
    queued: float | None = None
    generation_tokens_per_second: float | None = None
    prompt_tokens_per_second: float | None = None
    requests_per_second: float | None = None
    accept_length: float | None = None
    state_slots: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayMetrics:
    """Series of the service's gateway pods, summed; None where a ready gateway pod is missing from them."""

    age_seconds: float | None = None
    in_flight: float | None = None
    queued: float | None = None
    arrivals_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    """Everything that was read at one instant. `pods` is keyed by pod uid and may hold dead pods: the core drops them.

    gateways: ready gateway pods at that instant; None where nobody counted them. gateways_changed_at: when one last became ready.
    """

    window_seconds: float
    scrape_interval_seconds: float
    pods: dict[str, PodMetrics] = field(default_factory=dict)
    gateway: GatewayMetrics | None = None
    gateways: int | None = None
    gateways_changed_at: datetime | None = None
    error: MetricsError | None = None
    error_message: str | None = None
