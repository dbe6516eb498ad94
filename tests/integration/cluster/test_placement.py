"""The real scheduler and the disruption budget decide over the pods of process nodes as well."""

from __future__ import annotations

import pytest

from e2e.clusters.kube import ApiError
from e2e.clusters.local import LocalCluster
from tests.integration.cluster.pods import FOREVER, gone, read, until_ready
from tests.integration.support import eventually, pod


async def test_gpu_exhaustion_leaves_the_pod_pending_with_the_schedulers_words(local_cluster: LocalCluster, namespace: str) -> None:
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    gpus = {"limits": {"nvidia.com/gpu": "2"}}
    await local_cluster.apply([pod("first", FOREVER, resources=gpus, pod_spec=spec)], namespace=namespace)
    assert (await until_ready(local_cluster, namespace, "first"))["spec"]["nodeName"] == "l4-0"
    await local_cluster.apply([pod("second", FOREVER, resources=gpus, pod_spec=spec)], namespace=namespace)

    async def message() -> str | None:
        conditions = (await read(local_cluster, namespace, "second"))["status"].get("conditions", [])
        return next((c.get("message") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), None)

    assert "Insufficient nvidia.com/gpu" in str(await eventually(message))
    await local_cluster.client.delete(f"/api/v1/namespaces/{namespace}/pods/first")
    await until_ready(local_cluster, namespace, "second")


async def test_eviction_obeys_the_disruption_budget(local_cluster: LocalCluster, namespace: str) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
    }
    await local_cluster.apply([budget, pod("kept", FOREVER), pod("free", FOREVER)], namespace=namespace)
    await until_ready(local_cluster, namespace, "kept")
    await until_ready(local_cluster, namespace, "free")

    async def evict(name: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        await local_cluster.client.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    with pytest.raises(ApiError) as refused:
        await evict("kept")
    assert refused.value.status in {429, 500}
    await evict("free")
    await eventually(lambda: gone(local_cluster, namespace, "free"))
