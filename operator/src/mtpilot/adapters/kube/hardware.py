"""Hardware classes against live nodes: how many match, how many GPUs are free.

Free means allocatable minus what unfinished pods on the node request, whoever owns them. A replica cannot be spread over
leftovers of several nodes, so `placeable` counts whole shares only; the class's status shows the plain sum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mtpilot.api.hardware_class import GpuCount, HardwareClassSpec, HardwareClassStatus
from mtpilot.model.names import COMPONENT_ENGINE, COMPONENT_WORKER, LABEL_COMPONENT, LABEL_SERVICE
from mtpilot.model.snapshot import HardwareView, Manifest
from mtpilot.ports import ClusterError

from .fields import condition, labels_of, metadata_of

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
_FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpus:
    """GPUs of one matching node."""

    name: str
    total: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPods:
    """All engine pods of one service, workers included, from a newer read than the others."""

    namespace: str
    service: str
    pods: Sequence[Manifest]


def newest(pods: Sequence[Manifest], own: OwnPods) -> list[Manifest]:
    """Pods of all namespaces, with those of the one service as they are in its own read."""

    def is_own(pod: Manifest) -> bool:
        labels = labels_of(pod)
        engine = labels.get(LABEL_SERVICE) == own.service and labels.get(LABEL_COMPONENT) in (COMPONENT_ENGINE, COMPONENT_WORKER)
        return engine and metadata_of(pod).get("namespace") == own.namespace

    return [*(pod for pod in pods if not is_own(pod)), *own.pods]


def hardware_class_from_object(obj: Manifest) -> HardwareClassSpec:
    """The class as read.

    Raises:
        ClusterError: it does not fit the models (an older CRD is installed); the message names the field.
    """
    try:
        return HardwareClassSpec.model_validate(obj.get("spec") or {})
    except ValidationError as error:
        raise ClusterError(f"HardwareClass {metadata_of(obj)['name']} cannot be read: {error}") from error


def matching_nodes(spec: HardwareClassSpec, nodes: Sequence[Manifest], pods: Sequence[Manifest]) -> tuple[NodeGpus, ...]:
    """Ready nodes of the class that its pods would tolerate; `pods` are those of all namespaces."""
    used: dict[str, int] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in _FINISHED:
            used[node] = used.get(node, 0) + requested(pod, spec.gpu.resource)
    found = []
    for node in nodes:
        if not _matches(spec, node):
            continue
        name = metadata_of(node)["name"]
        total = _count(((node.get("status") or {}).get("allocatable") or {}).get(spec.gpu.resource))
        found.append(NodeGpus(name=name, total=total, free=max(total - used.get(name, 0), 0)))
    return tuple(found)


def view_of(name: str, spec: HardwareClassSpec, nodes: Sequence[NodeGpus]) -> HardwareView:
    """The class as a decision sees it: `gpus_free` counts only shares that a replica's pod fits into."""
    share = max(spec.gpu.per_replica // spec.nodes_per_replica, 1)
    placeable = sum(node.free // share * share for node in nodes)
    return HardwareView(name=name, spec=spec, nodes=len(nodes), gpus_total=sum(node.total for node in nodes), gpus_free=placeable)


def status_of(nodes: Sequence[NodeGpus]) -> HardwareClassStatus:
    total, free = sum(node.total for node in nodes), sum(node.free for node in nodes)
    return HardwareClassStatus(nodes=len(nodes), gpus=GpuCount(total=total, free=free))


def requested(pod: Manifest, resource: str) -> int:
    """GPUs that a pod holds: its containers together, or its greediest init container if that is more."""
    spec = pod.get("spec") or {}
    together = sum(_container_count(found, resource) for found in spec.get("containers") or ())
    return max([together, *(_container_count(found, resource) for found in spec.get("initContainers") or ())])


def _container_count(container: Mapping[str, Any], resource: str) -> int:
    resources = container.get("resources") or {}
    return _count((resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(resource))


def _count(quantity: str | int | None) -> int:
    """A whole number of devices; extended resources have no fractions, only maybe a suffix (2k is not worth a parser)."""
    return int(quantity) if quantity is not None and str(quantity).isdecimal() else 0


def _matches(spec: HardwareClassSpec, node: Manifest) -> bool:
    labels = labels_of(node)
    selected = all(labels.get(key) == value for key, value in spec.node_selector.items())
    ready = condition(node, "Ready").get("status") == "True"
    taints = (node.get("spec") or {}).get("taints") or ()
    return selected and ready and all(_tolerated(taint, spec.tolerations) for taint in taints if taint.get("effect") in _BLOCKING)


def _tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.get("key")
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")
