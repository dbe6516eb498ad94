"""A namespace with InferenceServices in it, as a test reads and changes it: through the API server only."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from e2e.clusters.api import ApiCluster
from e2e.clusters.kube import ApiError
from e2e.clusters.local import LocalCluster
from mtpilot.api.types import API_VERSION
from tests.integration.support import eventually

Manifest = dict[str, Any]

HARDWARE: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "HardwareClass",
    "metadata": {"name": "rtx-x4"},
    "spec": {
        "gpu": {"perReplica": 4, "memory": "96Gi"},
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "engine": {"args": ["--tp-size", "4"]},
    },
}
_SIMULATOR = {
    "SGLANG_SIM_TIME_SCALE": "10",
    "SGLANG_SIM_LOAD_SECONDS": "1",
    "SGLANG_SIM_DRAIN_CHECK_SECONDS": "0.2",
}


def inference_service(name: str = "chat", *, replicas: int = 2, **changes: Any) -> Manifest:
    """A small service whose engines load in a second; `changes` replace parts of its spec."""
    spec: Manifest = {
        "model": {"source": "hf://Qwen/Qwen3.5-122B-A10B", "servedName": "qwen", "contextLength": 8192},
        "hardwareClass": "rtx-x4",
        "replicas": replicas,
        "modes": {
            "mtp": {"maxRunningRequests": 8, "speculation": {"numSteps": 1, "eagleTopk": 1, "numDraftTokens": 2}},
            "batch": {"maxRunningRequests": 32},
        },
        "policy": {"mode": "Pinned", "pinned": {"mtp": replicas, "batch": 0}, "minDwell": "5s", "maxFlipsPerHour": 60},
        "rollout": {"drainTimeout": "30s", "readyTimeout": "30s"},
        "gateway": {"replicas": 1},
        "engine": {"env": [{"name": key, "value": value} for key, value in _SIMULATOR.items()]},
    }
    return {"apiVersion": API_VERSION, "kind": "InferenceService", "metadata": {"name": name}, "spec": spec | changes}


@dataclass(slots=True)
class ClusterScene:
    """Short ways to the objects of one namespace, on any cluster."""

    cluster: ApiCluster
    namespace: str

    def path(self, resource: str, name: str = "") -> str:
        groups = {
            "inferenceservices": "/apis/mtpilot.dev/v1alpha1",
            "throughputprofiles": "/apis/mtpilot.dev/v1alpha1",
            "deployments": "/apis/apps/v1",
            "leaderworkersets": "/apis/leaderworkerset.x-k8s.io/v1",
            "roles": "/apis/rbac.authorization.k8s.io/v1",
        }
        groups |= {"rolebindings": groups["roles"], "poddisruptionbudgets": "/apis/policy/v1"}
        path = f"{groups.get(resource, '/api/v1')}/namespaces/{self.namespace}/{resource}"
        return f"{path}/{name}" if name else path

    async def apply(self, *manifests: Manifest) -> None:
        await self.cluster.apply(manifests, namespace=self.namespace)

    async def get(self, resource: str, name: str) -> Manifest | None:
        try:
            return await self.cluster.client.get(self.path(resource, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def all(self, resource: str, selector: str = "") -> list[Manifest]:
        items: list[Manifest] = (await self.cluster.client.get(self.path(resource), labelSelector=selector))["items"]
        return items

    async def patch(self, name: str, spec: Manifest) -> None:
        """Change a service's spec as a user would."""
        await self.cluster.client.patch(self.path("inferenceservices", name), {"spec": spec})

    async def delete(self, name: str) -> None:
        await self.cluster.client.delete(self.path("inferenceservices", name))

    async def status(self, name: str = "chat") -> Manifest:
        found = await self.get("inferenceservices", name)
        return (found or {}).get("status") or {}

    async def condition(self, name: str, kind: str) -> Manifest:
        found = (await self.status(name)).get("conditions") or ()
        return next((item for item in found if item["type"] == kind), {})

    async def until_ready(self, name: str = "chat", *, replicas: int = 2, seconds: float = 60) -> Manifest:
        """Wait until all replicas serve and the service says so; gives its status."""

        async def ready() -> Manifest | None:
            status = await self.status(name)
            settled = all(slot["phase"] == "Serving" for slot in status.get("slots") or ())
            is_ready = (await self.condition(name, "Ready")).get("status") == "True"
            return status if settled and is_ready and len(status["slots"]) == replicas else None

        return await eventually(ready, seconds=seconds, every_seconds=0.2)

    async def until_gone(self, resource: str, name: str, *, seconds: float = 60) -> None:
        async def gone() -> bool:
            return await self.get(resource, name) is None

        await eventually(gone, seconds=seconds)

    async def events(self, reason: str) -> list[Manifest]:
        return [event for event in await self.all("events") if event["reason"] == reason]

    async def clean(self) -> None:
        for service in await self.all("inferenceservices"):
            path = self.path("inferenceservices", service["metadata"]["name"])
            with contextlib.suppress(ApiError):
                await self.cluster.client.patch(path, {"metadata": {"finalizers": None}})
                await self.cluster.client.delete(path)


@dataclass(slots=True)
class Scene(ClusterScene):
    """A namespace of the local cluster, whose parts are at hand."""

    cluster: LocalCluster
