"""InferenceService: one model, served by N replicas, each in mode mtp or batch.

The spec is the user's alone: the operator never writes it. What was defaulted, recommended and decided stands in status
(`api/status.py`). Cross-field rules live in `api/rules.py`, as CEL beside the schema.
"""

from enum import StrEnum
from typing import Any

from pydantic import Field

from .types import ApiModel, Decimal, Duration, Fraction


class Mode(StrEnum):
    """How a replica runs: speculation with few slots, or none with many."""

    MTP = "mtp"
    BATCH = "batch"

    @property
    def other(self) -> "Mode":
        return Mode.BATCH if self is Mode.MTP else Mode.MTP


class Sampling(StrEnum):
    GREEDY = "Greedy"
    SAMPLED = "Sampled"


class Objective(StrEnum):
    LATENCY = "Latency"
    BALANCED = "Balanced"
    THROUGHPUT = "Throughput"


class SpeculativeAlgorithm(StrEnum):
    """SGLang's names; NEXTN is the model's own multi-token-prediction head."""

    NEXTN = "NEXTN"
    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"


class PolicyMode(StrEnum):
    AUTO = "Auto"
    RECOMMEND_ONLY = "RecommendOnly"
    PINNED = "Pinned"


class MetricsLossPolicy(StrEnum):
    HOLD = "Hold"


class RolloutStrategy(StrEnum):
    AUTO = "Auto"
    SURGE = "Surge"
    ROLLING = "Rolling"
    RECREATE = "Recreate"


class SecretKey(ApiModel):
    """A key of a Secret in the service's namespace."""

    name: str = Field(min_length=1, max_length=253)
    key: str = Field(default="token", min_length=1, max_length=253)


class ModelCache(ApiModel):
    """Where weights are kept between starts; exactly one of the two."""

    persistent_volume_claim: str | None = Field(default=None, min_length=1, max_length=253)
    host_path: str | None = Field(default=None, pattern=r"^/.*", max_length=1024)


class ModelSpec(ApiModel):
    source: str = Field(min_length=1, max_length=1024, description="hf://ORG/NAME, a path below the cache, or s3://…")
    revision: str | None = Field(default=None, min_length=1, max_length=128)
    served_name: str | None = Field(
        default=None, min_length=1, max_length=128, description="Name in requests; default: the last part of source"
    )
    context_length: int | None = Field(default=None, ge=128, le=16_777_216)
    cache: ModelCache | None = None
    token_secret: SecretKey | None = Field(default=None, description="Token of the model hub")


class Targets(ApiModel):
    ttft: Duration | None = Field(default=None, description="Time to first token")
    itl: Duration | None = Field(default=None, description="Inter-token latency")


class WorkloadSpec(ApiModel):
    input_tokens: int = Field(default=1000, ge=1, le=16_777_216)
    output_tokens: int = Field(default=1000, ge=1, le=16_777_216)
    context_tokens: int | None = Field(
        default=None, ge=1, le=16_777_216, description="Mean context while decoding; default: input + output / 2"
    )
    sampling: Sampling = Sampling.SAMPLED
    objective: Objective = Objective.BALANCED
    targets: Targets | None = None


class SpeculationSpec(ApiModel):
    algorithm: SpeculativeAlgorithm = SpeculativeAlgorithm.NEXTN
    num_steps: int = Field(default=3, ge=1, le=16)
    eagle_topk: int = Field(default=1, ge=1, le=64)
    num_draft_tokens: int = Field(default=4, ge=2, le=256)
    adaptive: bool = False
    draft_model: str | None = Field(default=None, min_length=1, max_length=1024)


class BatchModeSpec(ApiModel):
    max_running_requests: int = Field(ge=1, le=4096)
    mem_fraction_static: Fraction = "0.85"
    extra_args: tuple[str, ...] = Field(default=(), max_length=64)


class MtpModeSpec(BatchModeSpec):
    speculation: SpeculationSpec = SpeculationSpec()


class ModesSpec(ApiModel):
    mtp: MtpModeSpec
    batch: BatchModeSpec


class MixSpec(ApiModel):
    """A number of replicas for each mode."""

    mtp: int = Field(default=0, ge=0, le=64)
    batch: int = Field(default=0, ge=0, le=64)


class Thresholds(ApiModel):
    """The uncalibrated rule's thresholds, on demand as a share of the mtp capacity (policy.md)."""

    up: Decimal = Field(default="0.97", description="Move towards batch above this share of the mtp capacity")
    down: Decimal = Field(default="0.75", description="Move back towards mtp below this share")
    full_at_running_requests: int | None = Field(
        default=None, ge=1, le=4096, description="Running requests at which an mtp replica counts as full; default: its effective slots"
    )


class Stabilization(ApiModel):
    up: Duration = "30s"
    down: Duration = "3m"


class PolicySpec(ApiModel):
    mode: PolicyMode = PolicyMode.AUTO
    pinned: MixSpec | None = Field(default=None, description="With mode Pinned: the mix; mtp + batch = replicas")
    thresholds: Thresholds = Thresholds()
    stabilization: Stabilization = Stabilization()
    min_dwell: Duration = Field(default="10m", description="Least time between two moves of the mix")
    max_flips_per_hour: int = Field(default=4, ge=0, le=120)
    min_replicas: MixSpec = MixSpec()
    on_metrics_loss: MetricsLossPolicy = MetricsLossPolicy.HOLD


class RolloutSpec(ApiModel):
    strategy: RolloutStrategy = RolloutStrategy.AUTO
    drain_timeout: Duration = "10m"
    ready_timeout: Duration = "20m"
    allow_downtime: bool = Field(default=False, description="A single replica may be replaced in place: requests wait at the gateway")


class GatewaySpec(ApiModel):
    replicas: int = Field(default=2, ge=1, le=8)
    queue_timeout: Duration = "2m"


class EnvVar(ApiModel):
    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)
    value: str = Field(default="", max_length=4096)


class EngineSpec(ApiModel):
    image: str | None = Field(default=None, min_length=1, max_length=512, description="Default: the hardware class's image")
    env: tuple[EnvVar, ...] = Field(
        default=(), max_length=64, json_schema_extra={"x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map"}
    )
    resources: dict[str, Any] | None = Field(
        default=None, description="Overlay of the engine container's resources; GPUs come from the hardware class"
    )
    pod_template: dict[str, Any] | None = Field(
        default=None, description="Overlay merged into the pod template: lists of named objects by name"
    )


class InferenceServiceSpec(ApiModel):
    model: ModelSpec
    hardware_class: str = Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    replicas: int = Field(default=1, ge=0, le=64, description="Replica slots: the GPU budget is replicas × the class's GPUs")
    workload: WorkloadSpec = WorkloadSpec()
    modes: ModesSpec
    policy: PolicySpec = PolicySpec()
    rollout: RolloutSpec = RolloutSpec()
    gateway: GatewaySpec = GatewaySpec()
    engine: EngineSpec = EngineSpec()
