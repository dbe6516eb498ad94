"""Objects as an API server gives them, cut down to what is read."""

from __future__ import annotations

import copy
from typing import Any

from mtpilot.api.types import API_VERSION
from mtpilot.model.snapshot import Manifest

UID = "0c4f1f0e-2b7c-4b53-9a3e-7d0d9d9b5b11"
DEPLOYMENT_UID = "a5b7d0c2-7a1d-4a3e-8f0b-1d1c6f4b2e01"
LABELS = {
    "app.kubernetes.io/managed-by": "mtpilot",
    "mtpilot.dev/service": "chat",
    "mtpilot.dev/component": "engine",
    "mtpilot.dev/slot": "chat-r0",
}
TEMPLATE_LABELS = {**LABELS, "mtpilot.dev/mode": "mtp", "mtpilot.dev/template-digest": "0123456789ab", "mtpilot.dev/serving": "true"}


def owner(uid: str = UID, kind: str = "InferenceService", name: str = "chat") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


def inference_service(**metadata: Any) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "team-a", "uid": UID, "generation": 3, "resourceVersion": "77", **metadata},
        "spec": {
            "model": {"source": "hf://Qwen/Qwen3.5-122B-A10B"},
            "hardwareClass": "rtx",
            "replicas": 2,
            "modes": {"mtp": {"maxRunningRequests": 24}, "batch": {"maxRunningRequests": 64}},
        },
        "status": {"observedGeneration": 2, "replicas": 2},
    }


def managed(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Apply" if manager.startswith("mtpilot") else "Update", "fieldsV1": fields}
    return entry | ({"subresource": subresource} if subresource else {})


def engine_fields(*names: str) -> dict[str, Any]:
    """managedFields of the engine container's fields."""
    container: dict[str, Any] = {'k:{"name":"engine"}': {f"f:{name}": {} for name in names}}
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": container}}}}


def deployment(name: str = "chat-r0", **changes: Any) -> Manifest:
    made: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": DEPLOYMENT_UID,
            "generation": 4,
            "creationTimestamp": "2026-12-01T12:00:00Z",
            "labels": dict(LABELS),
            "annotations": {"mtpilot.dev/digest": "feedfacecafe", "mtpilot.dev/rollout-state": '{"desiredMode":"batch"}'},
            "ownerReferences": [owner()],
            "managedFields": [
                managed("mtpilot", engine_fields("args", "image")),
                managed("kube-controller-manager", {"f:status": {"f:replicas": {}}}, "status"),
            ],
        },
        "spec": {"replicas": 1, "template": {"metadata": {"labels": dict(TEMPLATE_LABELS)}, "spec": {}}},
        "status": {"observedGeneration": 4, "readyReplicas": 1},
    }
    return merged(made, changes)


def replica_set(number: int, digest: str, mode: str = "mtp", owner_uid: str = DEPLOYMENT_UID) -> Manifest:
    labels = {**TEMPLATE_LABELS, "mtpilot.dev/template-digest": digest, "mtpilot.dev/mode": mode, "pod-template-hash": "6d5b8c7f9"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"chat-r0-{number}",
            "uid": f"rs-{number}",
            "annotations": {"deployment.kubernetes.io/revision": str(number)},
            "ownerReferences": [owner(owner_uid, "Deployment", "chat-r0")],
        },
        "spec": {"template": {"metadata": {"labels": labels, "creationTimestamp": None}, "spec": {"containers": [{"name": "engine"}]}}},
    }


def condition(kind: str, status: str, at: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": at, **more}


def pod(**changes: Any) -> Manifest:
    """A ready engine pod."""
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "chat-r0-6d5b8c7f9-x2x4z",
            "namespace": "team-a",
            "uid": "3f0d7f3e-1111-4222-8333-abcdefabcdef",
            "creationTimestamp": "2026-12-01T12:00:05Z",
            "labels": dict(TEMPLATE_LABELS),
            "ownerReferences": [owner("rs-1", "ReplicaSet", "chat-r0-1")],
        },
        "spec": {"nodeName": "rtx-0", "containers": [{"name": "engine"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.3.17",
            "conditions": [
                condition("Initialized", "True", "2026-12-01T12:00:06Z"),
                condition("Ready", "True", "2026-12-01T12:03:40Z"),
                condition("PodScheduled", "True", "2026-12-01T12:00:05Z"),
            ],
            "containerStatuses": [
                {
                    "name": "engine",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-12-01T12:00:07Z"}},
                }
            ],
        },
    }
    return merged(made, changes)


def merged(base: Manifest, changes: dict[str, Any]) -> Manifest:
    """A copy with `changes` merged in, dict by dict; None removes a key."""
    copied = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            copied.pop(key, None)
        elif isinstance(value, dict) and isinstance(copied.get(key), dict):
            copied[key] = merged(copied[key], value)
        else:
            copied[key] = value
    return copied
