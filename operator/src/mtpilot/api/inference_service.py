"""InferenceService: one model, served by N replicas, each in mode mtp or batch.

The spec is the user's alone: the operator never writes it. What was defaulted, recommended and decided stands in status
(`api/status.py`). Cross-field rules live in `api/rules.py`, as CEL beside the schema.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .engine import EngineSpec
from .gateway import GatewaySpec
from .model import ModelSpec
from .types import DNS_LABEL_PATTERN, LABEL_VALUE_PATTERN, STORED_DEFAULT, ApiModel, Decimal, Duration, EngineArg, Fraction

MOST_RUNNING_REQUESTS = 4096  # of one replica


class Mode(StrEnum):
    """How a replica runs: speculation with few slots, or none with many."""

    MTP = "mtp"
    BATCH = "batch"

    @property
    def other(self) -> "Mode":
        return Mode.BATCH if self is Mode.MTP else Mode.MTP


class Sampling(StrEnum):
    """How requests sample; greedy decoding accepts more drafts."""

    GREEDY = "Greedy"
    SAMPLED = "Sampled"


class Objective(StrEnum):
    """What the mix is chosen for."""

    LATENCY = "Latency"
    BALANCED = "Balanced"
    THROUGHPUT = "Throughput"


class SpeculativeAlgorithm(StrEnum):
    """SGLang's names; NEXTN is the model's own multi-token-prediction head."""

    NEXTN = "NEXTN"
    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"


class PolicyMode(StrEnum):
    """Who moves the mix: the operator, nobody, or `pinned`."""

    AUTO = "Auto"
    RECOMMEND_ONLY = "RecommendOnly"
    PINNED = "Pinned"


class MetricsLossPolicy(StrEnum):
    """What is done while metrics are missing: Hold changes nothing."""

    HOLD = "Hold"


class RolloutStrategy(StrEnum):
    """How a slot is replaced: with a spare replica first, one after another, or in place with downtime."""

    AUTO = "Auto"
    SURGE = "Surge"
    ROLLING = "Rolling"
    RECREATE = "Recreate"


class Targets(ApiModel):
    """Latency goals; a mix that misses one gives way to a mix that meets it."""

    ttft: Duration | None = Field(default=None, description="Time to first token")
    itl: Duration | None = Field(default=None, description="Inter-token latency")


class WorkloadSpec(ApiModel):
    """The usual request, until the operator has seen enough of them."""

    input_tokens: int = Field(default=1000, ge=1, le=16_777_216, description="Mean tokens of a prompt")
    output_tokens: int = Field(default=1000, ge=1, le=16_777_216, description="Mean tokens of an answer")
    context_tokens: int | None = Field(
        default=None, ge=1, le=16_777_216, description="Mean context while decoding; default: input + output / 2"
    )
    sampling: Sampling = Field(default=Sampling.SAMPLED, description="How requests sample; greedy decoding accepts more drafts")
    objective: Objective = Field(default=Objective.BALANCED, description="What the mix is chosen for")
    targets: Targets | None = Field(default=None, description="Latency goals")


class SpeculationSpec(ApiModel):
    """SGLang's speculative decoding, in its own names."""

    algorithm: SpeculativeAlgorithm = Field(
        default=SpeculativeAlgorithm.NEXTN, description="--speculative-algorithm; NEXTN is the model's own multi-token-prediction head"
    )
    num_steps: int = Field(default=3, ge=1, le=16, description="--speculative-num-steps")
    eagle_topk: int = Field(default=1, ge=1, le=64, description="--speculative-eagle-topk")
    num_draft_tokens: int = Field(default=4, ge=2, le=256, description="--speculative-num-draft-tokens; with eagleTopk 1: numSteps + 1")
    adaptive: bool = Field(default=False, description="--speculative-adaptive: SGLang lowers the steps by itself as the batch grows")
    draft_model: str | None = Field(
        default=None, min_length=1, max_length=1024, description="--speculative-draft-model-path, for a draft that is not in the checkpoint"
    )


class BatchModeSpec(ApiModel):
    """A replica without speculation: many slots."""

    max_running_requests: int = Field(
        ge=1, le=MOST_RUNNING_REQUESTS, description="--max-running-requests: the slots of a replica, as far as memory allows"
    )
    mem_fraction_static: Fraction = Field(
        default="0.85", description="--mem-fraction-static: share of GPU memory for weights and KV cache, above 0 and below 1"
    )
    extra_args: tuple[EngineArg, ...] = Field(
        default=(), max_length=64, description="Further SGLang arguments, one per item; those that mtpilot renders are refused"
    )


class MtpModeSpec(BatchModeSpec):
    """A replica with speculation: fast for each request, few slots."""

    speculation: SpeculationSpec = Field(default=SpeculationSpec(), description="SGLang's speculative decoding")


class ModesSpec(ApiModel):
    """The two kinds of replica."""

    mtp: MtpModeSpec = Field(description="Replicas with speculation")
    batch: BatchModeSpec = Field(description="Replicas without speculation")


class MixSpec(ApiModel):
    """A number of replicas for each mode."""

    mtp: int = Field(default=0, ge=0, le=64, description="Replicas in mode mtp")
    batch: int = Field(default=0, ge=0, le=64, description="Replicas in mode batch")


class Thresholds(ApiModel):
    """The uncalibrated rule's thresholds, on demand as a share of the mtp capacity (policy.md)."""

    up: Decimal = Field(default="0.97", description="Move towards batch above this share of the mtp capacity")
    down: Decimal = Field(default="0.75", description="Move back towards mtp below this share")
    full_at_running_requests: int | None = Field(
        default=None, ge=1, le=4096, description="Running requests at which an mtp replica counts as full; default: its effective slots"
    )


class Stabilization(ApiModel):
    """How long a signal must last before the mix moves."""

    up: Duration = Field(default="30s", description="Towards batch; 0s to 1h")
    down: Duration = Field(default="3m", description="Back towards mtp; 0s to 1h")


class PolicySpec(ApiModel):
    """Who decides the mix, and within which limits."""

    mode: PolicyMode = Field(default=PolicyMode.AUTO, description="Auto moves the mix, RecommendOnly only says what it would do")
    pinned: MixSpec | None = Field(default=None, description="With mode Pinned: the mix; mtp + batch = replicas")
    thresholds: Thresholds = Field(default=Thresholds(), description="Used while no ThroughputProfile is there")
    stabilization: Stabilization = Field(default=Stabilization(), description="How long a signal must last before the mix moves")
    min_dwell: Duration = Field(default="10m", description="Least time between two moves of the mix; 0s to 24h")
    max_flips_per_hour: int = Field(default=4, ge=0, le=120, description="Budget of replica flips; 0 never flips")
    min_replicas: MixSpec = Field(default=MixSpec(), description="Least replicas of each mode")
    on_metrics_loss: MetricsLossPolicy = Field(default=MetricsLossPolicy.HOLD, description="Hold: the mix stays as it is")


class RolloutSpec(ApiModel):
    """How a replica is replaced, for a flip as for a change of the spec."""

    strategy: RolloutStrategy = Field(default=RolloutStrategy.AUTO, description="Auto: Rolling; a lone replica Recreate, if allowed")
    drain_timeout: Duration = Field(default="10m", description="Longest wait for requests in flight; 1s to 24h")
    ready_timeout: Duration = Field(default="20m", description="After this a replacement is rolled back; 1s to 24h")
    allow_downtime: bool = Field(default=False, description="A single replica may be replaced in place: requests wait at the gateway")


class CalibrationMode(StrEnum):
    """When the operator measures the curves of both modes itself, on one replica taken out of rotation."""

    NEVER = "Never"
    WHEN_MISSING = "WhenMissing"
    REQUESTED = "Requested"


class CalibrationRunSpec(ApiModel):
    """What a calibration measures; where a field is absent, what `mtpilot bench` does by itself."""

    concurrency: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] = Field(
        default=(),
        max_length=32,
        description="Requests at once; the slots of the replica are always added, and what is above them is left out. "
        "Default: 1, 2, 4, 8, 16, 32, 64, 128",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    output_tokens: int | None = Field(default=None, ge=48, le=65_536, description="Tokens of an answer; default: 256")
    repeats: int = Field(default=3, ge=1, le=20, description="Batches of each level; 3 tell the noise")
    records_claim: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="PersistentVolumeClaim for the evidence package; without one a ConfigMap keeps what it can hold",
    )


class ProfileSpec(ApiModel):
    """Which ThroughputProfile decides, and whether the operator measures one."""

    name: str | None = Field(
        default=None, min_length=1, max_length=253, description="Name of the ThroughputProfile; default: the one that fits best"
    )
    calibration: CalibrationMode = Field(
        default=CalibrationMode.NEVER,
        description="WhenMissing measures while no profile can be used, Requested once for each requestId; both need two replicas",
    )
    request_id: str | None = Field(
        default=None, min_length=1, max_length=63, pattern=LABEL_VALUE_PATTERN, description="With Requested: another value measures again"
    )
    run: CalibrationRunSpec = Field(default=CalibrationRunSpec(), description="What a calibration measures")


class InferenceServiceSpec(ApiModel):
    """One model, served by N replicas, each in mode mtp or batch."""

    model: ModelSpec = Field(description="The model and where its weights come from")
    hardware_class: str = Field(min_length=1, max_length=63, pattern=DNS_LABEL_PATTERN, description="Name of the HardwareClass")
    replicas: int = Field(
        default=1,
        ge=0,
        le=64,
        description="Replica slots: the GPU budget is replicas × the class's GPUs",
        json_schema_extra={**STORED_DEFAULT},
    )
    workload: WorkloadSpec = Field(default=WorkloadSpec(), description="The usual request")
    modes: ModesSpec = Field(description="The two kinds of replica")
    profile: ProfileSpec = Field(
        default=ProfileSpec(),
        description="The ThroughputProfile to decide by; default: the one that fits model, hardware class and context best",
    )
    policy: PolicySpec = Field(default=PolicySpec(), description="Who decides the mix, and within which limits")
    rollout: RolloutSpec = Field(default=RolloutSpec(), description="How a replica is replaced")
    gateway: GatewaySpec = Field(default=GatewaySpec(), description="The proxy in front of the replicas")
    engine: EngineSpec = Field(default=EngineSpec(), description="Overlays on the engine pod")
