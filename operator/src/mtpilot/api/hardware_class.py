"""HardwareClass: what an administrator knows once about a kind of GPU node."""

from typing import Any

from pydantic import Field

from .types import ApiModel, Duration, Quantity


class GpuSpec(ApiModel):
    resource: str = Field(default="nvidia.com/gpu", pattern=r"^[a-z0-9.-]+/[A-Za-z0-9_.-]+$", max_length=253)
    per_replica: int = Field(ge=1, le=64, description="GPUs of one replica, over all its nodes")
    memory: Quantity = Field(description="Memory of one GPU")
    product: str | None = Field(default=None, min_length=1, max_length=63)


class StartupSpec(ApiModel):
    expected: Duration = Field(default="4m", description="Usual time from start to ready; the first guess of a flip's length")


class EngineDefaults(ApiModel):
    image: str = Field(default="lmsysorg/sglang:v0.5.23-runtime", min_length=1, max_length=512)
    args: tuple[str, ...] = Field(default=(), max_length=64)
    startup: StartupSpec = StartupSpec()


class HardwareClassSpec(ApiModel):
    gpu: GpuSpec
    nodes_per_replica: int = Field(default=1, ge=1, le=16)
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes")
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), max_length=32)
    engine: EngineDefaults = EngineDefaults()


class GpuCount(ApiModel):
    total: int = Field(default=0, ge=0)
    free: int = Field(default=0, ge=0)


class HardwareClassStatus(ApiModel):
    nodes: int = Field(default=0, ge=0, description="Ready nodes that match the selector")
    gpus: GpuCount = GpuCount()
