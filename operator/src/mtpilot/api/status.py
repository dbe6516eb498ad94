"""InferenceService status: which mode, why, since when, what would change it, what it waits for.

Written by the operator with server-side apply, only when it changed. Numbers that move all the time (`demand`) are rounded
and refreshed together with something that matters, so that a steady service causes no writes.
"""

from enum import StrEnum

from pydantic import Field

from .conditions import BaseCondition, Reason, Text
from .inference_service import MixSpec, Mode
from .throughput_profile import Bound, Verdict
from .types import ApiModel, Decimal, Sha256, SignedDecimal, Timestamp


class SlotPhase(StrEnum):
    """Where a slot is in its life; derived from live objects, never stored as truth."""

    PENDING = "Pending"  # first start: the pod has never been ready
    SERVING = "Serving"
    DRAINING = "Draining"
    REPLACING = "Replacing"
    ROLLING_BACK = "RollingBack"
    RETIRING = "Retiring"  # scaled away: drains, then its Deployment is deleted
    CALIBRATING = "Calibrating"  # out of rotation, to be measured
    BROKEN = "Broken"  # crash loop or rollback that is not ready either


class ConditionType(StrEnum):
    """What can be said of a service as a whole."""

    READY = "Ready"
    METRICS_AVAILABLE = "MetricsAvailable"
    CALIBRATED = "Calibrated"
    MODE_SETTLED = "ModeSettled"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    DEGRADED = "Degraded"


class Loop(StrEnum):
    """What a load does when answers take longer: arrivals go on, or clients wait for their answers."""

    OPEN = "Open"
    CLOSED = "Closed"


class Condition(BaseCondition):
    """A condition of a service."""

    type: ConditionType = Field(description="What is said")


class SlotStatus(ApiModel):
    """One replica slot."""

    name: str = Field(max_length=63, description="Name of its Deployment")
    mode: Mode = Field(description="Mode of the template it carries now")
    desired_mode: Mode | None = Field(default=None, description="Set while the slot is on its way to another mode")
    phase: SlotPhase = Field(description="Where the slot is in its life")
    since: Timestamp | None = Field(default=None, description="When the phase began")
    deadline: Timestamp | None = Field(default=None, description="When the phase is given up")
    effective_max_running_requests: int | None = Field(default=None, ge=0, description="Slots that the engine really has")
    message: Text | None = Field(default=None, description="What the slot waits for")


class DemandStatus(ApiModel):
    """The load when the last decision was made."""

    output_tokens_per_second: Decimal = Field(description="Demand, with what waits in the queue")
    in_flight: int = Field(default=0, ge=0, description="Requests that run in an engine")
    queued: int = Field(default=0, ge=0, description="Requests that wait for a slot")
    accept_length: Decimal | None = Field(default=None, description="Mean tokens per verification step of the mtp replicas")
    window: str | None = Field(default=None, max_length=16, description="Time over which rates were measured")


class PolicyState(ApiModel):
    """What the rule carries from tick to tick; small and safe to lose."""

    smoothed_tokens_per_second: Decimal | None = Field(default=None, description="Smoothed demand")
    mtp_capacity_tokens_per_second: Decimal | None = Field(default=None, description="Highest rate seen of one full mtp replica")
    mtp_capacity_template: str | None = Field(default=None, max_length=64, description="Template digest that the capacity was seen with")
    in_system: Decimal | None = Field(default=None, description="Smoothed number of requests that run or wait")
    closed_weight: Decimal | None = Field(default=None, description="From 0 (arrivals go on) to 1 (clients wait for their answers)")
    compared_in_system: Decimal | None = Field(default=None, description="Requests that ran or waited when the loop was last looked at")
    compared_seconds: Decimal | None = Field(default=None, description="Seconds from then to the last sample")
    price_to_batch: Decimal | None = Field(default=None, description="Request-minutes that the way back from a step to batch costs")
    price_to_mtp: Decimal | None = Field(default=None, description="Request-minutes that the way back from a step to mtp costs")
    spell_mode: Mode | None = Field(default=None, description="Where clients wait for answers: the better mode lately")
    spell_minutes: Decimal | None = Field(default=None, description="For how many minutes it has been the better one")
    usual_spell_minutes: Decimal | None = Field(default=None, description="How long a mode has stayed the better one")
    spell_spread_minutes: Decimal | None = Field(default=None, description="Mean deviation from that")
    usual_mtp_tokens_per_second: Decimal | None = Field(default=None, description="What an mtp replica would have served lately")
    usual_batch_tokens_per_second: Decimal | None = Field(default=None, description="What a batch replica would have served lately")
    usual_seen_minutes: Decimal | None = Field(default=None, description="Over how many minutes")
    recent_tokens_per_second: str | None = Field(
        default=None, max_length=1024, description="Mean demand of each of the last sixty minutes, oldest first"
    )
    minute_tokens: Decimal | None = Field(default=None, description="Output tokens asked for in the minute that is not over")
    minute_seconds: Decimal | None = Field(default=None, description="How much of it has passed")
    regret_batch: int | None = Field(default=None, ge=0, description="Batch replicas of the mix that the regret belongs to")
    regret_to_batch: SignedDecimal | None = Field(
        default=None, description="Request-minutes that a step to batch would have saved since then"
    )
    regret_to_mtp: SignedDecimal | None = Field(default=None, description="Request-minutes that a step to mtp would have saved since then")
    accept_length: Decimal | None = Field(default=None, description="Smoothed accept length of loaded mtp replicas")
    mtp_slots: int | None = Field(default=None, ge=0, description="Slots that an mtp replica was last seen with")
    batch_slots: int | None = Field(default=None, ge=0, description="Slots that a batch replica was last seen with")
    mtp_level: Decimal | None = Field(default=None, description="Rate of mtp replicas over what the profile says")
    mtp_level_weight: Decimal | None = Field(default=None, description="How well mtpLevel is known, from 0 to 1")
    batch_level: Decimal | None = Field(default=None, description="Rate of batch replicas over what the profile says")
    batch_level_weight: Decimal | None = Field(default=None, description="How well batchLevel is known, from 0 to 1")
    curves_digest: str | None = Field(
        default=None, max_length=64, description="Digest of the curves that levels and accept length belong to"
    )
    mtp_template: str | None = Field(default=None, max_length=64, description="Template digest that mtp replicas had then")
    batch_template: str | None = Field(default=None, max_length=64, description="Template digest that batch replicas had then")
    drift_seconds: int = Field(default=0, ge=0, description="For how long a level has been far from 1")
    queued_samples: int = Field(default=0, ge=0, description="Samples in a row with a queue")
    contradicted_samples: int = Field(default=0, ge=0, description="Samples in a row that an engine's own numbers contradicted")
    pressure: str | None = Field(default=None, max_length=8, description="Up or Down, while the signal persists")
    pressure_since: Timestamp | None = Field(default=None, description="When the signal began")
    observed_at: Timestamp | None = Field(default=None, description="Time of the last sample")
    recent_moves: tuple[Timestamp, ...] = Field(default=(), max_length=120, description="Starts of the flips of the last hour")


class MixCostStatus(ApiModel):
    """What one mix would cost, the way there included."""

    mix: MixSpec = Field(description="Replicas by mode")
    request_minutes: Decimal = Field(description="Requests in the system, summed over time, as workload.objective weighs them")
    feasible: bool = Field(default=True, description="Meets workload.targets, or no mix does")


class OutlookStatus(ApiModel):
    """What the rule sees ahead: the next hour by each mix within reach, when the last numbers were written."""

    horizon: str = Field(max_length=32, description="How far it looks ahead")
    staying: MixCostStatus = Field(description="The present mix")
    moves: tuple[MixCostStatus, ...] = Field(
        default=(),
        max_length=8,
        description="Each other mix that was looked at, by rising number of batch replicas",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    price_of_return: Decimal = Field(description="Request-minutes that the way back from the best move has cost lately")
    best: MixSpec = Field(description="The cheapest mix, the price of return included")
    draws_better: Decimal | None = Field(
        default=None, description="Share of the draws of uncertain curves in which the best mix stays cheaper than the present one"
    )
    batch_above_tokens_per_second: Decimal | None = Field(default=None, description="Demand above which a step to batch would pay")
    mtp_below_tokens_per_second: Decimal | None = Field(default=None, description="Demand below which a step to mtp would pay")


class DecisionStatus(ApiModel):
    """The present answer: a move that was started, or a hold and its reason."""

    reason: Reason = Field(description="Why, in one word")
    message: Text = Field(default="", description="Why, with the numbers")
    at: Timestamp | None = Field(default=None, description="When the answer last changed")
    would_change: Text | None = Field(default=None, description="What load or event would change the answer")
    outlook: OutlookStatus | None = Field(default=None, description="What staying and each move would cost")


class LoopStatus(ApiModel):
    """Which kind of load there is."""

    kind: Loop = Field(description="Open: arrivals go on whatever happens; Closed: clients wait for their answers")
    confidence: Decimal = Field(description="From 0.5 (unknown) to 1")


class ProfileInUseStatus(ApiModel):
    """The ThroughputProfile that decisions are made by, or what is missing for one."""

    name: str | None = Field(default=None, max_length=253, description="Name of the ThroughputProfile; absent: none is used")
    context_tokens: int | None = Field(default=None, ge=1, le=16_777_216, description="Mean context of the curves in use, in tokens")
    crossover: Decimal | None = Field(default=None, description="Requests at one replica at which the better mode changes; absent: none")
    above: Mode | None = Field(default=None, description="The better mode above the crossover")
    bound: Bound | None = Field(default=None, description="What makes it the better mode: the other's slots, or its speed")
    verdict: Verdict | None = Field(default=None, description="What the curves say about flipping")
    message: Text = Field(default="", description="Why this one, or what is missing")
    first_remedy: Text | None = Field(default=None, description="What to do before any flip, where mtp is short of slots")


class CalibrationPhase(StrEnum):
    """How far a calibration is."""

    WAITING = "Waiting"  # for a quiet time, or for the fleet to be whole
    DRAINING = "Draining"  # its slot finishes its requests
    STARTING = "Starting"  # its slot goes over to the mode to measure
    MEASURING = "Measuring"
    FINISHED = "Finished"
    FAILED = "Failed"


class CalibrationStatus(ApiModel):
    """The calibration that is asked for, under way or over."""

    phase: CalibrationPhase = Field(description="How far it is")
    request_id: str = Field(max_length=63, description="Which one: spec.profile.requestId, or one that mtpilot made")
    slot: str | None = Field(default=None, max_length=63, description="The slot that is out of rotation for it")
    mode: Mode | None = Field(default=None, description="The mode that is measured, or is next")
    done: int | None = Field(default=None, ge=0, description="Batches that were measured, of both modes")
    total: int | None = Field(default=None, ge=0, description="Batches to measure, as far as they are known")
    time_left: str | None = Field(default=None, max_length=32, description="Time left of the mode that is measured")
    started_at: Timestamp | None = Field(default=None, description="When a slot was first taken out of rotation for it")
    paused_at: Timestamp | None = Field(default=None, description="When its slot was last given back before the end")
    message: Text = Field(default="", description="What it waits for, or how it ended")


class HistoryEntry(ApiModel):
    """One flip of one slot."""

    at: Timestamp = Field(description="When it was decided")
    slot: str = Field(max_length=63, description="Name of the slot")
    from_mode: Mode = Field(alias="from", description="Mode before")
    to_mode: Mode = Field(alias="to", description="Mode after")
    outcome: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=32, description="Started, Completed or RolledBack")
    reason: Reason = Field(description="Why, in one word")
    message: Text = Field(default="", description="Why, with the numbers")
    seconds: int | None = Field(default=None, ge=0, description="From decision to Ready, once completed")


class FlipStatus(ApiModel):
    """What a flip costs here."""

    median_duration: str | None = Field(default=None, max_length=32, description="From decision to Ready")
    price_of_return: Decimal | None = Field(
        default=None, description="Request-minutes that the way back from the best move has cost lately; absent: nothing was predicted"
    )


class SummaryStatus(ApiModel):
    """Ready-made texts for `kubectl get`."""

    mix: str = Field(default="", max_length=64, description="Replicas by mode")
    recommended: str = Field(default="", max_length=64, description="The mix that is recommended")
    ready: str = Field(default="", max_length=16, description="Ready replicas of all")
    load: str = Field(default="", max_length=64, description="Demand in short")
    reason: str = Field(default="", max_length=64, description="Reason of the present decision, or of what stands in its way")


class EffectiveStatus(ApiModel):
    """Defaults as they were resolved, since the spec is never written."""

    image: str | None = Field(default=None, max_length=512, description="Engine image")
    served_name: str | None = Field(default=None, max_length=128, description="Model name in requests")
    strategy: str | None = Field(default=None, max_length=16, description="What rollout.strategy Auto means here")
    flags_sha256: Sha256 | None = Field(
        default=None, alias="flagsSha256", description="Digest of the engine arguments of both modes, for a profile's provenance"
    )


class InferenceServiceStatus(ApiModel):
    """Which mode, why, since when, what would change it, what it waits for."""

    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this status answers")
    replicas: int = Field(default=0, ge=0, description="Engine pods, as `/scale` reports them")
    selector: str = Field(default="", max_length=256, description="Label selector of the engine pods, for `/scale`")
    mix: MixSpec = Field(default=MixSpec(), description="Replicas by mode, as they are")
    recommended: MixSpec | None = Field(default=None, description="Replicas by mode, as they should be")
    slots: tuple[SlotStatus, ...] = Field(
        default=(),
        max_length=130,
        description="Every replica slot",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    demand: DemandStatus | None = Field(default=None, description="The load when the last decision was made")
    policy: PolicyState = Field(default=PolicyState(), description="What the rule carries from tick to tick")
    decision: DecisionStatus | None = Field(default=None, description="The present answer and its reason")
    loop: LoopStatus | None = Field(default=None, description="Which kind of load there is")
    profile: ProfileInUseStatus | None = Field(default=None, description="The curves that decisions are made by")
    calibration: CalibrationStatus | None = Field(default=None, description="The operator's own measurement, where the spec asks for one")
    flip: FlipStatus = Field(default=FlipStatus(), description="What a flip costs here")
    history: tuple[HistoryEntry, ...] = Field(
        default=(), max_length=10, description="The last flips, newest last", json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    effective: EffectiveStatus = Field(default=EffectiveStatus(), description="Defaults as they were resolved")
    summary: SummaryStatus = Field(default=SummaryStatus(), description="Ready-made texts for `kubectl get`")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=16,
        description="Ready, MetricsAvailable, Calibrated, ModeSettled, CapacityAvailable, Degraded",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
