"""HardwareClass: what an administrator knows once about a kind of GPU node.

Cluster-scoped, so that users name a class and need not know node labels, taints or the image that fits the GPUs.
"""

from pydantic import Field

from .types import ApiModel, Duration, EngineArg, LabelValue, Quantity, Toleration


class GpuSpec(ApiModel):
    """The GPUs of one replica."""

    resource: str = Field(
        default="nvidia.com/gpu", pattern=r"^[a-z0-9.-]+/[A-Za-z0-9_.-]+$", max_length=253, description="Extended resource of the node"
    )
    per_replica: int = Field(ge=1, le=64, description="GPUs of one replica, over all its nodes")
    memory: Quantity = Field(description="Memory of one GPU, like 96Gi")
    product: str | None = Field(default=None, min_length=1, max_length=63, description="Product name, for people")


class StartupSpec(ApiModel):
    """How long an engine takes to start."""

    expected: Duration = Field(default="4m", description="Usual time from start to ready; the first guess of a flip's length")


class EngineDefaults(ApiModel):
    """Engine settings that follow from the hardware."""

    image: str = Field(default="lmsysorg/sglang:v0.5.23-runtime", min_length=1, max_length=512, description="Engine image")
    args: tuple[EngineArg, ...] = Field(default=(), max_length=64, description="SGLang arguments for both modes, one per item")
    startup: StartupSpec = Field(default=StartupSpec(), description="How long an engine takes to start")


class HardwareClassSpec(ApiModel):
    """What a replica needs of its nodes."""

    gpu: GpuSpec = Field(description="The GPUs of one replica")
    nodes_per_replica: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Nodes that one replica spans; its GPUs are spread evenly. Above 1 the cluster needs LeaderWorkerSet 0.7",
    )
    node_selector: dict[str, LabelValue] = Field(default_factory=dict, max_length=32, description="Labels of the nodes")
    tolerations: tuple[Toleration, ...] = Field(
        default=(),
        max_length=32,
        description="Tolerations of the engine pods, as in a pod",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    engine: EngineDefaults = Field(default=EngineDefaults(), description="Engine settings that follow from the hardware")


class GpuCount(ApiModel):
    """GPUs of the matching nodes."""

    total: int = Field(default=0, ge=0, description="Allocatable on ready nodes")
    free: int = Field(default=0, ge=0, description="Not requested by any pod")


class HardwareClassStatus(ApiModel):
    """What the cluster has of this class."""

    nodes: int = Field(default=0, ge=0, description="Ready nodes that match the selector")
    gpus: GpuCount = Field(default=GpuCount(), description="GPUs of the matching nodes")
