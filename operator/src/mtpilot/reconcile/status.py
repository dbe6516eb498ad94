"""Status: built whole every tick, written only when something that matters changed.

Numbers that move by themselves (demand, smoothed values, messages with numbers) are refreshed together with a change that
matters, and otherwise at most every REFRESH_SECONDS while they really differ. An idle or steady service writes nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.inference_service import InferenceServiceSpec, MixSpec, RolloutStrategy
from mtpilot.api.status import (
    Condition,
    ConditionType,
    DecisionStatus,
    DemandStatus,
    EffectiveStatus,
    FlipStatus,
    HistoryEntry,
    InferenceServiceStatus,
    LoopStatus,
    OutlookStatus,
    ProfileInUseStatus,
    SlotPhase,
    SlotStatus,
    SummaryStatus,
)
from mtpilot.api.types import format_duration
from mtpilot.model.decision import Demand, Mix, NoDemand
from mtpilot.model.metrics import MetricsView
from mtpilot.model.names import selector
from mtpilot.model.reasons import QUIET, Reason
from mtpilot.model.slots import Pod, RolloutState
from mtpilot.model.snapshot import Service, Snapshot
from mtpilot.rollout.context import Step

from .findings import Findings
from .history import timestamp
from .templates import running_flags

REFRESH_SECONDS = 60.0
SURE = 0.7  # confidence in a kind of load
NOTABLE = 0.2  # share by which a number must differ from the written one
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a tick found, and what was made of it: ready to be put together."""

    found: Findings
    history: tuple[HistoryEntry, ...]
    conditions: tuple[Condition, ...]
    median_flip_seconds: float | None
    image: str | None
    served_name: str | None
    profile: ProfileInUseStatus
    loop: LoopStatus | None = None
    outlook: OutlookStatus | None = None


def two_digits(value: float) -> str:
    """A decimal string with two significant digits: 4310.7 → 4300, 0.034 → 0.034."""
    if value <= 0:
        return "0"
    text = f"{float(f'{value:.2g}'):.6f}".rstrip("0").rstrip(".")
    return text or "0"


def mix_spec(mix: Mix) -> MixSpec:
    return MixSpec(mtp=mix.mtp, batch=mix.batch)


def slot_status(name: str, step: Step, mode: Any, pods: Sequence[Pod], snapshot: Snapshot) -> SlotStatus:
    """One slot's line in status."""
    slots = next((load.effective_max_running_requests for pod in pods if (load := snapshot.engines.get(pod.uid)) is not None), None)
    desired = step.state.desired_mode
    return SlotStatus(
        name=name,
        mode=mode,
        desired_mode=desired if desired is not mode else None,
        phase=step.phase,
        since=timestamp(step.since) if step.since else None,
        deadline=timestamp(step.deadline) if step.deadline else None,
        effective_max_running_requests=slots,
        message=step.message[:1024] if step.message else None,
    )


def created_status(name: str, state: RolloutState, now: datetime) -> SlotStatus:
    """The line of a slot that this plan creates."""
    return SlotStatus(name=name, mode=state.desired_mode, phase=SlotPhase.PENDING, since=timestamp(now), message="is being created")


def build(parts: Parts, now: datetime) -> InferenceServiceStatus:
    """The whole status."""
    found = parts.found
    service, slots = found.snapshot.service, found.slots
    serving = sum(slot.phase is SlotPhase.SERVING for slot in slots)
    demand = _demand(found.demand, found.snapshot.metrics)
    decision = _decision(parts, service.status.decision, now)
    recommended = found.decision.recommended if found.decision else None
    return InferenceServiceStatus(
        observed_generation=service.generation,
        replicas=len(slots),
        selector=selector(service.name),
        mix=mix_spec(found.mix),
        recommended=mix_spec(recommended) if recommended else None,
        slots=slots,
        demand=demand,
        policy=found.policy,
        decision=decision,
        loop=parts.loop,
        profile=parts.profile,
        calibration=found.calibration,
        flip=FlipStatus(
            median_duration=_duration(parts.median_flip_seconds), price_of_return=parts.outlook.price_of_return if parts.outlook else None
        ),
        history=parts.history,
        effective=_effective(service, parts),
        summary=SummaryStatus(
            mix=str(found.mix),
            recommended=str(recommended) if recommended else "",
            ready=f"{serving}/{service.spec.replicas}",
            load=_load(demand),
            reason=_reason(parts, decision),
        ),
        conditions=parts.conditions,
    )


def _reason(parts: Parts, decision: DecisionStatus | None) -> str:
    """Of the decision, or of what stands in its way: that no replica is ready is no cause where one is known."""
    if parts.found.problem is not None:
        return parts.found.problem[0]
    if decision is None or decision.reason != Reason.NO_READY_REPLICA:
        return decision.reason if decision is not None else ""
    bad = {ConditionType.CAPACITY_AVAILABLE: ConditionStatus.FALSE, ConditionType.DEGRADED: ConditionStatus.TRUE}
    causes = (condition.reason for condition in parts.conditions if condition.status == bad.get(condition.type))
    return next(causes, decision.reason)


def _duration(seconds: float | None) -> str | None:
    return format_duration(timedelta(seconds=round(seconds))) if seconds is not None else None


def _effective(service: Service, parts: Parts) -> EffectiveStatus:
    spec = service.spec
    return EffectiveStatus(
        image=parts.image,
        served_name=parts.served_name,
        strategy=_strategy(spec),
        flags_sha256=running_flags(service, parts.found.snapshot.hardware),
    )


def _strategy(spec: InferenceServiceSpec) -> RolloutStrategy:
    """`policy.strategy` asks again at every move whether a peer is ready; this is what it finds in a sound fleet."""
    if spec.rollout.strategy is not RolloutStrategy.AUTO:
        return spec.rollout.strategy
    return RolloutStrategy.RECREATE if spec.replicas == 1 and spec.rollout.allow_downtime else RolloutStrategy.ROLLING


def _demand(demand: Demand | NoDemand, metrics: MetricsView | None) -> DemandStatus | None:
    if isinstance(demand, NoDemand):
        return None
    return DemandStatus(
        output_tokens_per_second=two_digits(demand.demand_tokens_per_second),
        in_flight=round(demand.in_flight),
        queued=round(demand.queued),
        accept_length=two_digits(demand.accept_length) if demand.accept_length else None,
        window=_duration(metrics.window_seconds) if metrics else None,
    )


def _load(demand: DemandStatus | None) -> str:
    if demand is None:
        return "unknown"
    queued = f", {demand.queued} queued" if demand.queued else ""
    return f"{demand.output_tokens_per_second} tok/s, {demand.in_flight} in flight{queued}"


def _decision(parts: Parts, before: DecisionStatus | None, now: datetime) -> DecisionStatus | None:
    decision = parts.found.decision
    if decision is None:
        return None
    same = before is not None and before.reason == decision.reason and before.at is not None
    at = before.at if same and before is not None else timestamp(now)
    return DecisionStatus(
        reason=decision.reason,
        message=decision.message[:1024],
        at=at,
        would_change=decision.would_change[:1024] or None,
        outlook=parts.outlook,
    )


def matters(status: InferenceServiceStatus) -> dict[str, Any]:
    """The part of a status whose change is worth a write at once."""
    kept = status.model_dump(by_alias=True, exclude_none=True, exclude={"demand", "policy", "decision", "loop"})
    kept["flip"].pop("priceOfReturn", None)
    kept["summary"] = {key: value for key, value in kept["summary"].items() if key not in ("load", "reason")}
    if "calibration" in kept:
        kept["calibration"].pop("timeLeft", None)
        kept["calibration"]["message"] = _NUMBER.sub("", kept["calibration"]["message"])
    reason = status.decision.reason if status.decision else None
    kept["reason"] = Reason.STEADY if reason in QUIET else reason
    for line in kept.get("slots", ()):
        line["message"] = _NUMBER.sub("", line.get("message", ""))  # a drain counts down: no write for each request
    kept["recentMoves"] = list(status.policy.recent_moves)
    return kept


def _numbers(status: InferenceServiceStatus) -> tuple[float, ...]:
    demand, policy = status.demand, status.policy
    texts = (
        demand.output_tokens_per_second if demand else None,
        demand.in_flight if demand else None,
        demand.queued if demand else None,
        policy.smoothed_tokens_per_second,
        policy.mtp_capacity_tokens_per_second,
    )
    return tuple(float(text or 0) for text in texts)


def moved_on(old: InferenceServiceStatus, new: InferenceServiceStatus) -> bool:
    """Whether a number left the written one by more than NOTABLE, or the rule began to lean the other way."""
    if (old.demand is None) != (new.demand is None) or old.policy.pressure != new.policy.pressure:
        return True
    if [slot.message for slot in old.slots] != [slot.message for slot in new.slots]:
        return True
    return any(abs(a - b) > max(NOTABLE * max(a, b), 2.0) for a, b in zip(_numbers(old), _numbers(new), strict=True))


def _loop_told(old: LoopStatus | None, new: LoopStatus | None) -> bool:
    """Whether a kind of load has become sure that was not told as sure; around even odds it changes with every sample."""
    if new is None or float(new.confidence) < SURE:
        return False
    return old is None or old.kind is not new.kind or float(old.confidence) < SURE


def worth_a_write(old: InferenceServiceStatus, new: InferenceServiceStatus, now: datetime) -> bool:
    """Whether the new status is to be written over the one read."""
    if matters(old) != matters(new) or _loop_told(old.loop, new.loop):
        return True
    if not moved_on(old, new):
        return False
    written = old.policy.observed_at
    return written is None or (now - datetime.fromisoformat(written)).total_seconds() >= REFRESH_SECONDS
