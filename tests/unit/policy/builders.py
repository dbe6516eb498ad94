"""Small round numbers for policy tests: four replicas, 24 mtp and 68 batch slots, 1000 tok/s of one full mtp replica."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Demand, FleetState, Mix, ReplicaSample
from mtpilot.model.metrics import GatewayMetrics, MetricsView, PodMetrics
from mtpilot.model.slots import Pod, Slot
from mtpilot.policy.timing import to_text

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
CAPACITY = 1000.0
SLOTS = {Mode.MTP: 24, Mode.BATCH: 68}
DIGESTS = {Mode.MTP: "aaaaaaaaaaaa", Mode.BATCH: "bbbbbbbbbbbb"}
SCRAPE = 10.0

LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 68.0)
# As fitted in the policy design for Qwen3.5-122B on 4 × RTX PRO 6000: mtp is ahead at every level that it has slots for.
PAIR = CurvePair(
    mtp=ThroughputCurve(concurrency=LEVELS[:6], tokens_per_second=tuple(121.5 * n**0.83 for n in LEVELS[:6])),
    batch=ThroughputCurve(concurrency=LEVELS, tokens_per_second=tuple(108 * n**0.771 for n in LEVELS)),
    accept_length=2.0,
    mtp_error=0.0,
    batch_error=0.0,
)


def curve(*points: tuple[float, float]) -> ThroughputCurve:
    levels, rates = zip(*points, strict=True)
    return ThroughputCurve(concurrency=levels, tokens_per_second=rates)


def calibration(pair: CurvePair = PAIR, verdict: Verdict = Verdict.FLIP) -> Calibration:
    return Calibration(profile="measured", context_tokens=1000, curves=pair, verdict=verdict)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def spec(*, replicas: int = 4, policy: Mapping[str, Any] | None = None, rollout: Mapping[str, Any] | None = None) -> InferenceServiceSpec:
    return InferenceServiceSpec.model_validate(
        {
            "model": {"source": "hf://Qwen/Qwen3.5-122B-A10B"},
            "hardwareClass": "rtx-pro-6000-x4",
            "replicas": replicas,
            "workload": {"outputTokens": 500},
            "modes": {"mtp": {"maxRunningRequests": 24}, "batch": {"maxRunningRequests": 68}},
            "policy": dict(policy or {}),
            "rollout": dict(rollout or {}),
        }
    )


def modes_of(mix: Mix) -> tuple[Mode, ...]:
    return (Mode.MTP,) * mix.mtp + (Mode.BATCH,) * mix.batch


def pod(index: int, mode: Mode = Mode.MTP, **changes: Any) -> Pod:
    base = Pod(
        name=f"chat-r{index}-x",
        uid=f"uid-{index}",
        slot=f"chat-r{index}",
        mode=mode,
        digest=DIGESTS[mode],
        created_at=ago(7200),
        ready=True,
        ready_since=ago(7000),
        was_ready=True,
    )
    return replace(base, **changes)


def slot(index: int, mode: Mode = Mode.MTP) -> Slot:
    return Slot(
        name=f"chat-r{index}",
        index=index,
        uid=f"slot-{index}",
        mode=mode,
        digest=DIGESTS[mode],
        replicas=1,
        created_at=ago(7200),
    )


def pods_and_slots(mix: Mix) -> tuple[list[Pod], list[Slot]]:
    modes = modes_of(mix)
    return [pod(i, mode) for i, mode in enumerate(modes)], [slot(i, mode) for i, mode in enumerate(modes)]


def series(*, running: float = 10.0, queued: float = 0.0, rate: float = 500.0, **changes: Any) -> PodMetrics:
    base = PodMetrics(age_seconds=4.0, running=running, queued=queued, generation_tokens_per_second=rate, requests_per_second=rate / 400.0)
    return replace(base, **changes)


def gateway(*, queued: float = 0.0, arrivals: float = 5.0, **changes: Any) -> GatewayMetrics:
    base = GatewayMetrics(age_seconds=4.0, in_flight=40.0, queued=queued, arrivals_per_second=arrivals)
    return replace(base, **changes)


def view(pods: Iterable[PodMetrics], *, gateway: GatewayMetrics | None = None, **changes: Any) -> MetricsView:
    base = MetricsView(
        window_seconds=60.0,
        scrape_interval_seconds=SCRAPE,
        pods={f"uid-{i}": metrics for i, metrics in enumerate(pods)},
        gateway=gateway,
    )
    return replace(base, **changes)


def sample(index: int = 0, mode: Mode = Mode.MTP, **changes: Any) -> ReplicaSample:
    base = ReplicaSample(
        slot=f"chat-r{index}", mode=mode, digest=DIGESTS[mode], running=10.0, queued=0.0, tokens_per_second=500.0, slots=SLOTS[mode]
    )
    return replace(base, **changes)


def full(index: int = 0, rate: float = CAPACITY, **changes: Any) -> ReplicaSample:
    return sample(index, Mode.MTP, running=24.0, tokens_per_second=rate, **changes)


def demand(
    tokens_per_second: float, *, mix: Mix | None = None, queued: float = 0.0, running: float = 10.0, at: datetime = NOW, **changes: Any
) -> Demand:
    """Demand that is spread evenly over the replicas of `mix` (4 mtp)."""
    modes = modes_of(mix if mix is not None else Mix(mtp=4, batch=0))
    share = tokens_per_second / len(modes)
    base = Demand(
        at=at,
        replicas=tuple(sample(i, mode, running=running, tokens_per_second=share) for i, mode in enumerate(modes)),
        served_tokens_per_second=tokens_per_second,
        demand_tokens_per_second=tokens_per_second,
        in_flight=running * len(modes),
        queued=queued,
        mean_output_tokens=500.0,
        saturated=queued > 0,
        scrape_interval_seconds=SCRAPE,
    )
    return replace(base, **changes)


def fleet(mix: Mix | None = None, **changes: Any) -> FleetState:
    mix = mix if mix is not None else Mix(mtp=4, batch=0)
    base = FleetState(
        mix=mix,
        replicas=mix.total,
        ready=mix.total,
        moving=None,
        last_move_at=None,
        moves_last_hour=0,
        oldest_move_last_hour_at=None,
        failed_modes={},
        gpus_free=0,
        gpus_per_replica=4,
    )
    return replace(base, **changes)


def state(
    *,
    smoothed: float | None = None,
    capacity: float | None = CAPACITY,
    pressure: str | None = None,
    for_seconds: float = 0.0,
    queued_samples: int = 0,
    seen_before_seconds: float = 10.0,
) -> PolicyState:
    """The state of a service that was looked at `seen_before_seconds` ago."""
    return PolicyState(
        smoothed_tokens_per_second=None if smoothed is None else f"{smoothed:.3f}",
        mtp_capacity_tokens_per_second=None if capacity is None else f"{capacity:.3f}",
        mtp_capacity_template=None if capacity is None else DIGESTS[Mode.MTP],
        queued_samples=queued_samples,
        pressure=pressure,
        pressure_since=None if pressure is None else to_text(ago(for_seconds)),
        observed_at=to_text(ago(seen_before_seconds)),
    )
