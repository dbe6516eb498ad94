"""Every number of the demo in one place, and how its load is derived from them.

The demo shows in a minute what takes hours in production, so times are scaled down: the engine's steps by `time_scale`
(all rates times, all latencies divided by it), the trace by the compression, and what the policy waits for by hand. All
of it is printed and stands in the summary, so that nobody takes the figures for measurements of a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from e2e.demo.shaping import Compression, TraceRow, shape
from e2e.load.schedule import Schedule
from sglang_sim.curves import BUILT_IN

CURVE = "qwen3.5-122b-4xrtxpro6000"
FULL_SHARES = ((0.0, 0.35), (8.0, 0.35), (12.0, 0.75), (18.0, 1.1), (46.0, 1.1), (49.0, 0.30), (58.0, 0.30))
QUICK_SHARES = ((0.0, 0.35), (3.0, 0.35), (5.0, 0.75), (8.0, 1.1), (26.0, 1.1), (29.0, 0.30), (36.0, 0.30))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What one run of the demo uses. Durations are as Kubernetes writes them where they go into an object."""

    shares: tuple[tuple[float, float], ...] = FULL_SHARES
    """(seconds, load as a share of what all replicas in mtp can produce): the shape of the load."""
    baselines: bool = True
    namespace: str = "demo"
    service: str = "chat"
    served_model: str = "qwen3.5-122b"
    hardware_class: str = "rtx-pro-6000-x4"
    profile: str = "qwen3.5-122b-rtx-pro-6000-x4"
    replicas: int = 4
    gpus_per_replica: int = 4
    mtp_running_requests: int = 48
    batch_running_requests: int = 128
    time_scale: float = 3.0
    load_seconds: float = 2.0
    event_seconds: float = 0.25
    scrape_seconds: float = 1.0
    rate_window_seconds: float = 5.0
    period_seconds: float = 1.0
    min_mtp_replicas: int = 2
    stabilization_up: str = "1s"
    stabilization_down: str = "2s"
    min_dwell: str = "1s"
    max_flips_per_hour: int = 120
    drain_timeout: str = "20s"
    ready_timeout: str = "1m"
    queue_timeout: str = "2m"
    gateway_replicas: int = 2
    request_timeout_seconds: float = 150.0
    settle_seconds: float = 45.0
    """How long the auto run may go on without load until the last flip has ended."""

    @property
    def seconds(self) -> float:
        """Length of the schedule."""
        return self.shares[-1][0]

    @property
    def quiet_from_seconds(self) -> float:
        """When the load has come down again: the last point but one."""
        return self.shares[-2][0]

    @property
    def gpu_budget(self) -> int:
        return self.replicas * self.gpus_per_replica

    @property
    def mtp_tokens_per_second(self) -> float:
        """What all replicas produce in mtp with every slot taken, in wall time."""
        curve = BUILT_IN[CURVE].modes["mtp"]
        return self.replicas * curve.tokens_per_second(min(self.mtp_running_requests, curve.slots)) * self.time_scale

    @property
    def batch_tokens_per_second(self) -> float:
        """The same for batch."""
        curve = BUILT_IN[CURVE].modes["batch"]
        return self.replicas * curve.tokens_per_second(min(self.batch_running_requests, curve.slots)) * self.time_scale

    def document(self) -> dict[str, Any]:
        """For the summary."""
        derived = {
            "mtp_tokens_per_second": round(self.mtp_tokens_per_second, 1),
            "batch_tokens_per_second": round(self.batch_tokens_per_second, 1),
        }
        return asdict(self) | {"curve": CURVE, "seconds": self.seconds, "gpu_budget": self.gpu_budget} | derived


def compression(parameters: Parameters, trace: Sequence[TraceRow]) -> Compression:
    """The factors k that bring the trace's mean rate of output tokens to the wished shares of the mtp capacity.

    k(t) = share(t) × mtp capacity / mean of the trace: the trace's own ups and downs stay on top of it.
    """
    mean = sum(row.output_tokens for row in trace) / trace[-1].at_seconds
    return Compression(points=tuple((at, share * parameters.mtp_tokens_per_second / mean) for at, share in parameters.shares))


def schedule(parameters: Parameters, trace: Sequence[TraceRow]) -> Schedule:
    """The load that every policy gets."""
    return shape(trace, compression(parameters, trace), seconds=parameters.seconds)


def quick(*, baselines: bool) -> Parameters:
    """A shorter run of the same shape."""
    return Parameters(shares=QUICK_SHARES, baselines=baselines)
