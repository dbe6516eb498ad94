"""A hardware class over two nodes, and a service on it."""

from __future__ import annotations

from typing import Any

from mtpilot.api.types import API_VERSION
from tests.integration.controller.scene import Manifest, inference_service

TWO_NODES: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "HardwareClass",
    "metadata": {"name": "rtx-x4-two-nodes"},
    "spec": {
        "gpu": {"perReplica": 4, "memory": "96Gi"},
        "nodesPerReplica": 2,
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "engine": {"args": ["--tp-size", "4"]},
    },
}


def two_node_service(**changes: Any) -> Manifest:
    rollout = {"drainTimeout": "30s", "readyTimeout": "20s"}
    return inference_service(hardwareClass=TWO_NODES["metadata"]["name"], rollout=rollout, **changes)
