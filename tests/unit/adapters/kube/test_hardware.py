"""Hardware classes against nodes: selector, readiness, taints, and GPUs in whole replicas."""

from __future__ import annotations

from typing import Any

import pytest

from mtpilot.adapters.kube.hardware import OwnPods, matching_nodes, newest, requested, status_of, view_of
from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.model.snapshot import Manifest

GPU = "nvidia.com/gpu"


def hardware(**changes: Any) -> HardwareClassSpec:
    spec: dict[str, Any] = {
        "gpu": {"perReplica": 4, "memory": "96Gi"},
        "nodeSelector": {"pool": "rtx"},
        "tolerations": [{"key": GPU, "operator": "Exists"}],
    }
    return HardwareClassSpec.model_validate(spec | changes)


def node(name: str, gpus: int = 8, *, pool: str = "rtx", ready: str = "True", taints: list[dict[str, str]] | None = None) -> Manifest:
    return {
        "metadata": {"name": name, "labels": {"pool": pool}},
        "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}] if taints is None else taints},
        "status": {"allocatable": {GPU: str(gpus), "cpu": "32"}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(node_name: str | None, gpus: int, *, phase: str = "Running", init: int = 0) -> Manifest:
    containers = [{"name": "engine", "resources": {"limits": {GPU: str(gpus)}}}]
    spec: dict[str, Any] = {"containers": containers, "initContainers": [{"name": "i", "resources": {"requests": {GPU: str(init)}}}]}
    return {"spec": spec | ({"nodeName": node_name} if node_name else {}), "status": {"phase": phase}}


def test_free_gpus_are_what_unfinished_pods_leave() -> None:
    pods = [pod("a", 4), pod("a", 2, phase="Succeeded"), pod("b", 3, phase="Pending"), pod(None, 4), pod("elsewhere", 8)]
    nodes = matching_nodes(hardware(), [node("a"), node("b")], pods)
    assert [(found.name, found.total, found.free) for found in nodes] == [("a", 8, 4), ("b", 8, 5)]
    status = status_of(nodes)
    assert (status.nodes, status.gpus.total, status.gpus.free) == (2, 16, 9)


def test_a_replica_is_not_spread_over_leftovers() -> None:
    nodes = matching_nodes(hardware(), [node("a"), node("b")], [pod("a", 5), pod("b", 5)])
    assert status_of(nodes).gpus.free == 6
    assert view_of("rtx", hardware(), nodes).gpus_free == 0
    two_nodes = hardware(nodesPerReplica=2)
    assert view_of("rtx", two_nodes, nodes).gpus_free == 4


def test_own_pods_count_as_they_are_now_and_others_as_they_were_read() -> None:
    """A replica made, or gone, since the read of all namespaces is neither missing nor still there."""

    def engine(node_name: str, namespace: str = "ns", component: str = "engine") -> Manifest:
        labels = {"mtpilot.dev/service": "chat", "mtpilot.dev/component": component}
        return {"metadata": {"namespace": namespace, "labels": labels}} | pod(node_name, 4)

    def free(cached: list[Manifest], own: list[Manifest]) -> int:
        pods = newest(cached, OwnPods(namespace="ns", service="chat", pods=own))
        return sum(found.free for found in matching_nodes(hardware(), [node("a"), node("b")], pods))

    assert free([], [engine("a"), engine("b")]) == 8
    assert free([engine("a")], [engine("a")]) == 12
    assert free([engine("a"), engine("b")], [engine("a")]) == 12
    assert free([engine("a", "elsewhere"), pod("b", 4)], [engine("a")]) == 4
    worker = engine("b", component="engine-worker")
    assert free([engine("a"), worker], [engine("a"), worker]) == 8


@pytest.mark.parametrize(
    "unfit",
    [
        node("a", pool="h200"),
        node("a", ready="False"),
        node("a", ready="Unknown"),
        node("a", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        node("a", taints=[{"key": "broken", "effect": "NoExecute", "value": "yes"}]),
    ],
)
def test_nodes_that_do_not_count(unfit: Manifest) -> None:
    assert matching_nodes(hardware(), [unfit], []) == ()


@pytest.mark.parametrize(
    ("toleration", "taint", "fits"),
    [
        ({"operator": "Exists"}, {"key": "any", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "1"}, {"key": "a", "value": "1", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "1"}, {"key": "a", "value": "2", "effect": "NoSchedule"}, False),
        ({"key": "a"}, {"key": "a", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}, False),
        ({"key": "b", "operator": "Exists"}, {"key": "a", "effect": "NoSchedule"}, False),
        ({"key": "b"}, {"key": "a", "effect": "PreferNoSchedule"}, True),
    ],
)
def test_tolerations(toleration: dict[str, str], taint: dict[str, str], fits: bool) -> None:
    nodes = matching_nodes(hardware(tolerations=[toleration]), [node("a", taints=[taint])], [])
    assert bool(nodes) is fits


def test_requests_of_a_pod() -> None:
    assert requested(pod("a", 4), GPU) == 4
    assert requested(pod("a", 1, init=2), GPU) == 2
    assert requested({"spec": {"containers": [{"name": "x"}]}}, GPU) == 0
