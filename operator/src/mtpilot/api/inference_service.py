"""InferenceService: one model, served by N replicas, each in mode mtp or batch.

The spec is the user's alone: the operator never writes it. What was defaulted, recommended and decided stands in status
(`api/status.py`). Cross-field rules live in `api/rules.py`, as CEL beside the schema.
"""

from enum import StrEnum
from typing import Any

from pydantic import Field

from .types import DNS_LABEL_PATTERN, STORED_DEFAULT, ApiModel, Decimal, Duration, EngineArg, Fraction

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


class SecretKey(ApiModel):
    """A key of a Secret in the service's namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret")
    key: str = Field(default="token", min_length=1, max_length=253, description="Key in its data")


class ModelCache(ApiModel):
    """Where weights are kept between starts; exactly one of the two."""

    persistent_volume_claim: str | None = Field(default=None, min_length=1, max_length=253, description="A claim in the same namespace")
    host_path: str | None = Field(default=None, pattern=r"^/.*", max_length=1024, description="A directory of the node, absolute")


class ModelSpec(ApiModel):
    """The model and where its weights come from."""

    source: str = Field(min_length=1, max_length=1024, description="hf://ORG/NAME, a path below the cache, or s3://…")
    revision: str | None = Field(default=None, min_length=1, max_length=128, description="Commit, tag or branch at the hub")
    served_name: str | None = Field(
        default=None, min_length=1, max_length=128, description="Name in requests; default: the last part of source"
    )
    context_length: int | None = Field(
        default=None, ge=128, le=16_777_216, description="Longest context of a request; default: the model's own"
    )
    cache: ModelCache | None = Field(default=None, description="Where weights are kept between starts")
    token_secret: SecretKey | None = Field(default=None, description="Token of the model hub")


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


class Affinity(StrEnum):
    """What is kept together on one replica; the engine's prefix cache then serves it again."""

    NONE = "None"
    CONVERSATION = "Conversation"


class ContentionSpec(ApiModel):
    """Which mode takes a request while both serve."""

    limit: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Requests in flight that an mtp replica takes before the batch replicas do; default: the crossover of the profile in "
        "use, without one no limit",
    )


class ApiKeysSpec(ApiModel):
    """Who may use the gateway: requests need one of these keys as bearer token."""

    secret_name: str = Field(
        min_length=1, max_length=253, description="A Secret in the same namespace; each item of its data is a client's name and its key"
    )
    max_concurrent_requests: int | None = Field(
        default=None, ge=1, le=8000, description="Most requests of one key at a time, waiting ones included; more are refused with 429"
    )


class TlsSpec(ApiModel):
    """TLS in front of the gateway."""

    secret_name: str = Field(
        min_length=1,
        max_length=253,
        description="A Secret of type kubernetes.io/tls in the same namespace; a renewed one is taken up as it is",
    )


class GatewaySpec(ApiModel):
    """The proxy in front of the replicas."""

    replicas: int = Field(default=2, ge=1, le=8, description="Gateway pods")
    queue_timeout: Duration = Field(default="2m", description="Longest wait of a request for a slot; 1s to 1h")
    queue_length: int = Field(
        default=1000, ge=1, le=8000, description="Most requests that wait at one gateway pod; more are refused with 429"
    )
    batch_queue_length: int = Field(
        default=500,
        ge=1,
        le=8000,
        description="The same for requests of class batch (header x-mtpilot-priority: batch), which wait behind all others",
    )
    affinity: Affinity = Field(
        default=Affinity.NONE,
        description="Conversation: requests of one conversation go to the replica that served it last, while that has a free slot",
    )
    api_keys: ApiKeysSpec | None = Field(default=None, description="Who may use the gateway; default: everybody who reaches it")
    tls: TlsSpec | None = Field(default=None, description="HTTPS on port 443 of the Service, with HTTP/2; default: HTTP on port 80")
    contention: ContentionSpec = Field(default=ContentionSpec(), description="Which mode takes a request while both serve")


class ProfileReference(ApiModel):
    """The ThroughputProfile to decide by, in the service's namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the ThroughputProfile")


class EnvVar(ApiModel):
    """An environment variable of the engine."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128, description="Name of the variable")
    value: str = Field(default="", max_length=4096, description="Its value")


class EngineSpec(ApiModel):
    """Overlays on the engine pod."""

    image: str | None = Field(default=None, min_length=1, max_length=512, description="Engine image; default: the hardware class's")
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=64,
        description="Environment of the engine container",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    resources: dict[str, Any] | None = Field(
        default=None, description="Overlay of the engine container's resources; GPUs come from the hardware class"
    )
    pod_template: dict[str, Any] | None = Field(
        default=None, description="Overlay merged into the pod template: lists of named objects by name"
    )


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
    profile: ProfileReference | None = Field(
        default=None, description="The ThroughputProfile to decide by; default: the one that fits model, hardware class and context best"
    )
    policy: PolicySpec = Field(default=PolicySpec(), description="Who decides the mix, and within which limits")
    rollout: RolloutSpec = Field(default=RolloutSpec(), description="How a replica is replaced")
    gateway: GatewaySpec = Field(default=GatewaySpec(), description="The proxy in front of the replicas")
    engine: EngineSpec = Field(default=EngineSpec(), description="Overlays on the engine pod")
