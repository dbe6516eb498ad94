"""What the process node is told: its nodes, which program stands for which image, where its files and addresses are.

`LocalCluster` writes this as one YAML file and the node reads it back, so the node is also usable alone against any API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field

GPU_RESOURCE = "nvidia.com/gpu"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeSpec(_Config):
    """One Node object; `capacity` holds quantities as Kubernetes writes them and is allocatable in full."""

    name: str
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    capacity: dict[str, str] = {"cpu": "64", "memory": "1024Gi", "pods": "250", "ephemeral-storage": "1024Gi"}


class Replacement(_Config):
    """A command that the image would run, and what runs in its place; the arguments after it stay."""

    command: list[str]
    by: list[str]


class Image(_Config):
    """What stands for the images whose name matches one of the globs `match`."""

    match: list[str]
    entrypoint: list[str] = []
    default_arguments: list[str] = []
    path_prepend: list[str] = []
    environment: dict[str, str] = {}
    replacements: list[Replacement] = []

    def fits(self, name: str) -> bool:
        """Tell whether this stands for an image, written with or without Docker Hub's prefix."""
        short = name.removeprefix("docker.io/").removeprefix("library/")
        return any(fnmatchcase(name, glob) or fnmatchcase(short, glob) for glob in self.match)


class NodeConfig(_Config):
    """The process node's whole configuration; back-off times are a kubelet's (10 s, 300 s) unless a test shortens them."""

    nodes: list[NodeSpec]
    images: list[Image] = Field(description="the first that fits an image's name is taken")
    network: IPv4Network
    state: Path
    lease_renew_seconds: float = 10.0
    refresh_seconds: float = 60.0
    backoff_seconds: float = 10.0
    backoff_max_seconds: float = 300.0

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a YAML file; ValueError names a wrong field."""
        return cls.model_validate(yaml.safe_load(path.read_text()))

    def dump(self, path: Path) -> Path:
        """Write the YAML file."""
        document: dict[str, Any] = self.model_dump(mode="json")
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """Equal nodes named `<name>-0` and so on. A pool with a GPU product has its label and the usual taint."""

    name: str
    nodes: int = 2
    gpu_product: str | None = None
    gpus_per_node: int = 0

    def specs(self) -> list[NodeSpec]:
        """Give the pool's nodes."""
        return [self._spec(f"{self.name}-{index}") for index in range(self.nodes)]

    def _spec(self, name: str) -> NodeSpec:
        plain = NodeSpec(name=name)
        if self.gpu_product is None:
            return plain
        return NodeSpec(
            name=name,
            labels={GPU_PRODUCT_LABEL: self.gpu_product, "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": str(self.gpus_per_node)},
            taints=[{"key": GPU_RESOURCE, "value": "present", "effect": "NoSchedule"}],
            capacity=plain.capacity | {GPU_RESOURCE: str(self.gpus_per_node)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePools:
    """The cluster's nodes: by default two GPU pools (2 × 8 GPUs each) and one node without GPUs and taints."""

    pools: tuple[NodePool, ...] = (
        NodePool(name="rtx-pro-6000", nodes=2, gpu_product="NVIDIA-RTX-PRO-6000-Blackwell", gpus_per_node=8),
        NodePool(name="h200", nodes=2, gpu_product="NVIDIA-H200", gpus_per_node=8),
        NodePool(name="cpu", nodes=1),
    )

    def specs(self) -> list[NodeSpec]:
        """Give all nodes."""
        return [spec for pool in self.pools for spec in pool.specs()]
