"""URL paths of the kinds that mtpilot touches.

A fixed table in place of discovery: the set is small, it is what RBAC grants, and an unknown kind is a bug rather than a lookup.
"""

from dataclasses import dataclass
from typing import Self

from mtpilot.api.types import API_VERSION
from mtpilot.model.snapshot import Manifest
from mtpilot.ports import ClusterError

INFERENCE_SERVICE = (API_VERSION, "InferenceService")
HARDWARE_CLASS = (API_VERSION, "HardwareClass")
THROUGHPUT_PROFILE = (API_VERSION, "ThroughputProfile")
CUSTOM_RESOURCE_DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")

_PLURALS: dict[tuple[str, str], str] = {
    INFERENCE_SERVICE: "inferenceservices",
    HARDWARE_CLASS: "hardwareclasses",
    THROUGHPUT_PROFILE: "throughputprofiles",
    CUSTOM_RESOURCE_DEFINITION: "customresourcedefinitions",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Event"): "events",
    ("v1", "Node"): "nodes",
    ("v1", "Pod"): "pods",
    ("v1", "Secret"): "secrets",
    ("v1", "Service"): "services",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "ControllerRevision"): "controllerrevisions",
    ("batch/v1", "Job"): "jobs",
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): "selfsubjectaccessreviews",
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): "leaderworkersets",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("rbac.authorization.k8s.io/v1", "Role"): "roles",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "rolebindings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """An object's address; no namespace for cluster-scoped kinds."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        metadata = manifest["metadata"]
        return cls(api_version=manifest["apiVersion"], kind=manifest["kind"], name=metadata["name"], namespace=metadata.get("namespace"))

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        return f"{collection_path(self.api_version, self.kind, self.namespace)}/{self.name}"


def collection_path(api_version: str, kind: str, namespace: str | None) -> str:
    """Path of all objects of a kind, in one namespace or in all.

    Raises:
        ClusterError: a kind that mtpilot has no business with.
    """
    plural = _PLURALS.get((api_version, kind))
    if plural is None:
        raise ClusterError(f"{api_version} {kind} is not a kind that mtpilot handles")
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
