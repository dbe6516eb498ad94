"""InferenceService status: which mode, why, since when, what would change it, what it waits for.

Written by the operator with server-side apply, only when it changed. Numbers that move all the time (`demand`) are rounded
and refreshed together with something that matters, so that a steady service causes no writes.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .inference_service import MixSpec, Mode
from .types import ApiModel, Decimal, Timestamp

Text = Annotated[str, Field(max_length=1024)]


class SlotPhase(StrEnum):
    """Derived from live objects and the slot's rollout state, never stored as truth (architecture.md)."""

    PENDING = "Pending"  # first start: the pod has never been ready
    SERVING = "Serving"
    DRAINING = "Draining"
    REPLACING = "Replacing"
    ROLLING_BACK = "RollingBack"
    RETIRING = "Retiring"  # scaled away: drains, then its Deployment is deleted
    BROKEN = "Broken"  # crash loop or rollback that is not ready either


class ConditionType(StrEnum):
    READY = "Ready"
    METRICS_AVAILABLE = "MetricsAvailable"
    CALIBRATED = "Calibrated"
    MODE_SETTLED = "ModeSettled"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    DEGRADED = "Degraded"


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """The Kubernetes condition convention; `last_transition_time` moves only with `status`."""

    type: ConditionType
    status: ConditionStatus
    reason: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=64)
    message: Text = ""
    observed_generation: int = Field(default=0, ge=0)
    last_transition_time: Timestamp


class SlotStatus(ApiModel):
    name: str = Field(max_length=63)
    mode: Mode
    desired_mode: Mode | None = Field(default=None, description="Set while the slot is on its way to another mode")
    phase: SlotPhase
    since: Timestamp | None = None
    deadline: Timestamp | None = None
    effective_max_running_requests: int | None = Field(default=None, ge=0)
    message: Text | None = None


class DemandStatus(ApiModel):
    output_tokens_per_second: Decimal
    in_flight: int = Field(default=0, ge=0)
    queued: int = Field(default=0, ge=0)
    accept_length: Decimal | None = None
    window: str = Field(default="60s", max_length=16)


class PolicyState(ApiModel):
    """What the rule carries from tick to tick; small and safe to lose."""

    smoothed_tokens_per_second: Decimal | None = None
    mtp_capacity_tokens_per_second: Decimal | None = Field(default=None, description="Highest rate seen of one full mtp replica")
    mtp_capacity_template: str | None = Field(default=None, max_length=64, description="Template digest that the capacity was seen with")
    queued_samples: int = Field(default=0, ge=0)
    pressure: str | None = Field(default=None, max_length=8, description="Up or Down, while the signal persists")
    pressure_since: Timestamp | None = None
    observed_at: Timestamp | None = None
    recent_moves: tuple[Timestamp, ...] = Field(default=(), max_length=120, description="Starts of the flips of the last hour")


class DecisionStatus(ApiModel):
    """The present answer: a move that was started, or a hold and its reason."""

    reason: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=64)
    message: Text = ""
    at: Timestamp | None = None
    would_change: Text | None = Field(default=None, description="What load or event would change the answer")


class HistoryEntry(ApiModel):
    at: Timestamp
    slot: str = Field(max_length=63)
    from_mode: Mode = Field(alias="from")
    to_mode: Mode = Field(alias="to")
    outcome: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=32, description="Started, Completed or RolledBack")
    reason: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=64)
    message: Text = ""
    seconds: int | None = Field(default=None, ge=0, description="From decision to Ready, once completed")


class FlipStatus(ApiModel):
    median_duration: str | None = Field(default=None, max_length=32)


class SummaryStatus(ApiModel):
    """Ready-made texts for `kubectl get`."""

    mix: str = Field(default="", max_length=64)
    recommended: str = Field(default="", max_length=64)
    ready: str = Field(default="", max_length=16)
    load: str = Field(default="", max_length=64)
    reason: str = Field(default="", max_length=64)


class EffectiveStatus(ApiModel):
    """Defaults as they were resolved, since the spec is never written."""

    image: str | None = Field(default=None, max_length=512)
    served_name: str | None = Field(default=None, max_length=128)
    strategy: str | None = Field(default=None, max_length=16)


class InferenceServiceStatus(ApiModel):
    observed_generation: int = Field(default=0, ge=0)
    replicas: int = Field(default=0, ge=0)
    selector: str = Field(default="", max_length=256)
    mix: MixSpec = MixSpec()
    recommended: MixSpec | None = None
    slots: tuple[SlotStatus, ...] = Field(
        default=(), max_length=130, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    )
    demand: DemandStatus | None = None
    policy: PolicyState = PolicyState()
    decision: DecisionStatus | None = None
    flip: FlipStatus = FlipStatus()
    history: tuple[HistoryEntry, ...] = Field(default=(), max_length=10, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    effective: EffectiveStatus = EffectiveStatus()
    summary: SummaryStatus = SummaryStatus()
    conditions: tuple[Condition, ...] = Field(
        default=(), max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    )
