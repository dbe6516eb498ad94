"""The objects that the demo applies, as a user would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.demo.parameters import CURVE, Parameters
from mtpilot.api.types import API_VERSION

Manifest = dict[str, Any]
GPU_PRODUCT = "NVIDIA-RTX-PRO-6000-Blackwell"
PROFILE = Path(__file__).resolve().parents[1] / "data" / "profiles" / "qwen3.5-122b-rtx-pro-6000-x4.yaml"
MODEL = "hf://Qwen/Qwen3.5-122B-A10B"


def namespace(parameters: Parameters) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": parameters.namespace}}


def hardware_class(parameters: Parameters) -> Manifest:
    """4× RTX PRO 6000: what an administrator would write once."""
    return {
        "apiVersion": API_VERSION,
        "kind": "HardwareClass",
        "metadata": {"name": parameters.hardware_class},
        "spec": {
            "gpu": {"resource": "nvidia.com/gpu", "perReplica": parameters.gpus_per_replica, "memory": "96Gi", "product": GPU_PRODUCT},
            "nodeSelector": {"nvidia.com/gpu.product": GPU_PRODUCT},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "engine": {
                "image": "lmsysorg/sglang:v0.5.23-runtime",
                "args": ["--tp-size", str(parameters.gpus_per_replica)],
                "startup": {"expected": f"{round(parameters.load_seconds)}s"},
            },
        },
    }


def policy(parameters: Parameters, *, pinned: str | None = None) -> Manifest:
    """`spec.policy`: Auto, or all replicas pinned to one mode ("mtp" or "batch")."""
    document: Manifest = {
        "mode": "Pinned" if pinned else "Auto",
        "stabilization": {"up": parameters.stabilization_up, "down": parameters.stabilization_down},
        "minDwell": parameters.min_dwell,
        "maxFlipsPerHour": parameters.max_flips_per_hour,
    }
    if not pinned:
        document["minReplicas"] = {"mtp": parameters.min_mtp_replicas, "batch": 0}
    else:
        other = "batch" if pinned == "mtp" else "mtp"
        document["pinned"] = {pinned: parameters.replicas, other: 0}
    return document


def throughput_profile(parameters: Parameters) -> Manifest:
    """The curves of the published report at the engines' scale of time: as if a GPU were that much faster."""
    profile: Manifest = yaml.safe_load(PROFILE.read_text(encoding="utf-8"))
    spec = profile["spec"]
    curves = [
        curve
        | {
            "points": [
                point | {"outputTokensPerSecond": f"{parameters.time_scale * float(point['outputTokensPerSecond']):.1f}"}
                for point in curve["points"]
            ]
        }
        for curve in spec["curves"]
    ]
    provenance = {"source": f"{spec['provenance']['source']}. Rates × {parameters.time_scale:g}, as the demo's engines"}
    # Without its fit, which is that of the real times: a power law from each point to the next is what the engines have built in.
    scaled = {key: value for key, value in spec.items() if key != "fit"} | {"curves": curves, "provenance": provenance}
    metadata = {"name": parameters.profile, "namespace": parameters.namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "ThroughputProfile",
        "metadata": metadata,
        "spec": scaled | {"hardwareClass": parameters.hardware_class, "model": {"source": MODEL}},
    }


def inference_service(parameters: Parameters, name: str, *, pinned: str | None = None) -> Manifest:
    """The service in Auto, or pinned to one mode. Its `engine.env` speaks to the simulator; on real hardware that part is not there."""
    simulator = {
        "SGLANG_SIM_CURVE": CURVE,
        "SGLANG_SIM_TIME_SCALE": f"{parameters.time_scale:g}",
        "SGLANG_SIM_LOAD_SECONDS": f"{parameters.load_seconds:g}",
        "SGLANG_SIM_MIN_EVENT_SECONDS": f"{parameters.event_seconds:g}",
        "SGLANG_SIM_DRAIN_CHECK_SECONDS": "0.5",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": parameters.namespace},
        "spec": {
            "model": {"source": MODEL, "servedName": parameters.served_model, "contextLength": 32768},
            "hardwareClass": parameters.hardware_class,
            "replicas": parameters.replicas,
            "workload": {"inputTokens": 1150, "outputTokens": 250},
            "modes": {
                "mtp": {
                    "maxRunningRequests": parameters.mtp_running_requests,
                    "memFractionStatic": "0.92",
                    "speculation": {"algorithm": "NEXTN", "numSteps": 1, "eagleTopk": 1, "numDraftTokens": 2},
                },
                "batch": {"maxRunningRequests": parameters.batch_running_requests, "memFractionStatic": "0.85"},
            },
            "policy": policy(parameters, pinned=pinned),
            "rollout": {"strategy": "Rolling", "drainTimeout": parameters.drain_timeout, "readyTimeout": parameters.ready_timeout},
            "gateway": {"replicas": parameters.gateway_replicas, "queueTimeout": parameters.queue_timeout},
            "engine": {"env": [{"name": name, "value": value} for name, value in simulator.items()]},
        },
    }
