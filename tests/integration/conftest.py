"""One real cluster for all integration tests of a run, and one namespace for each test.

`local_cluster` (session): etcd, API server, controller manager, scheduler, the process node and Prometheus with a scrape each second, as
`e2e.clusters.local.LocalCluster`. Crash back-off is 0.5 s … 4 s. Nodes, all ready:

    rtx-pro-6000-0, -1   label nvidia.com/gpu.product=NVIDIA-RTX-PRO-6000-Blackwell, 48 GPUs each, taint nvidia.com/gpu:NoSchedule
    h200-0, h200-1       label nvidia.com/gpu.product=NVIDIA-H200, 8 GPUs each, the same taint
    l4-0                 label nvidia.com/gpu.product=NVIDIA-L4, 2 GPUs, the same taint: for "no GPU free"
    cpu-0, cpu-1         no GPU, no taint: gateways

`namespace`: a new namespace in which pods can be created at once. After the test it is deleted and its pods are gone from the API, so
their GPUs are free; finalizers of custom objects are the test's own concern. `cluster.client` is the administrator's API client,
`cluster.apply(manifests, namespace=…)` applies server-side, `cluster.log_path(namespace, pod, container)` is a container's output.
CRDs are applied by the tests that need them.

`make test` runs the files over three processes (pytest-xdist, --dist loadfile), each with a cluster of its own: most of a scenario is
waiting.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e import toolchain
from e2e.clusters.local import LocalCluster, NodePool, NodePools
from e2e.toolchain.catalogue import CLUSTER_TOOLS
from tests.integration.support import eventually

_HERE = Path(__file__).parent
_numbers = itertools.count(1)

NODES = NodePools(
    pools=(
        NodePool(name="rtx-pro-6000", nodes=2, gpu_product="NVIDIA-RTX-PRO-6000-Blackwell", gpus_per_node=48),
        NodePool(name="h200", nodes=2, gpu_product="NVIDIA-H200", gpus_per_node=8),
        NodePool(name="l4", nodes=1, gpu_product="NVIDIA-L4", gpus_per_node=2),
        NodePool(name="cpu", nodes=2),
    )
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder is an integration test; files with slow ones go first, so that they do not end last."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install the tools before the first test: a cold build takes minutes and must not count against a test's time-out."""
    if not session.config.option.collectonly and any("local_cluster" in getattr(item, "fixturenames", ()) for item in session.items):
        groups = any("leader_worker_set" in getattr(item, "fixturenames", ()) for item in session.items)
        toolchain.ensure([*CLUSTER_TOOLS, *(["lws-controller"] if groups else [])])


@pytest.fixture(scope="session")
async def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCluster]:
    """The cluster that all integration tests share; see the module's docstring."""
    folder = tmp_path_factory.mktemp("c")
    async with LocalCluster.start(
        state_dir=folder, nodes=NODES, scrape_interval_seconds=1.0, backoff_seconds=0.5, backoff_max_seconds=4.0
    ) as cluster:
        yield cluster


@pytest.fixture
async def namespace(local_cluster: LocalCluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    name = await local_cluster.create_namespace(f"t{next(_numbers)}-{words}"[:50].rstrip("-"))
    yield name
    path = f"/api/v1/namespaces/{name}"
    await local_cluster.client.delete(path)
    await local_cluster.client.delete(f"{path}/pods", {"gracePeriodSeconds": 0})

    async def empty() -> bool:
        return not (await local_cluster.client.get(f"{path}/pods"))["items"]

    await eventually(empty, seconds=30)
