"""Pods have addresses of their own, and their probes decide whether they are ready or restarted."""

from __future__ import annotations

import asyncio

from e2e.clusters.local import LocalCluster
from tests.integration.cluster.pods import HTTP_PROBE, PORTS, SERVER, container, post, until_ready
from tests.integration.support import eventually, pod


async def test_deployment_serves_on_an_address_of_its_own_per_pod(local_cluster: LocalCluster, namespace: str) -> None:
    template = pod("web", SERVER, ports=PORTS, readinessProbe=HTTP_PROBE)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": template["metadata"] | {"name": None}, "spec": template["spec"]},
        },
    }
    await local_cluster.apply([deployment], namespace=namespace)

    async def available() -> bool:
        found = await local_cluster.client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
        return bool(found.get("status", {}).get("availableReplicas") == 2)

    await eventually(available)
    pods = (await local_cluster.client.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]
    addresses = {found["status"]["podIP"] for found in pods}
    assert len(addresses) == 2
    assert all(address.startswith("127.1.") for address in addresses)
    for address in addresses:
        async with local_cluster.client.session.get(f"http://{address}:8000/") as answer:
            assert answer.status == 200


async def test_readiness_follows_its_probe_and_liveness_restarts(local_cluster: LocalCluster, namespace: str) -> None:
    await local_cluster.apply(
        [
            pod("readiness", SERVER, ports=PORTS, readinessProbe=HTTP_PROBE),
            pod("liveness", SERVER, ports=PORTS, livenessProbe=HTTP_PROBE),
        ],
        namespace=namespace,
    )
    address = (await until_ready(local_cluster, namespace, "readiness"))["status"]["podIP"]
    other = (await until_ready(local_cluster, namespace, "liveness"))["status"]["podIP"]
    await post(address, "/break")

    async def unready() -> bool:
        return not (await container(local_cluster, namespace, "readiness"))["ready"]

    await eventually(unready)
    await post(address, "/mend")
    ready = await until_ready(local_cluster, namespace, "readiness")
    assert ready["status"]["containerStatuses"][0]["restartCount"] == 0
    await asyncio.sleep(0)
    await post(other, "/break")

    async def restarted() -> bool:
        found = await container(local_cluster, namespace, "liveness")
        return found["restartCount"] == 1 and "running" in found["state"]

    await eventually(restarted)


async def test_startup_probe_holds_back_readiness(local_cluster: LocalCluster, namespace: str) -> None:
    late = "import time; time.sleep(1.5)\n" + SERVER
    startup = {"tcpSocket": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 10}
    await local_cluster.apply([pod("late", late, ports=PORTS, startupProbe=startup)], namespace=namespace)

    async def running() -> bool:
        return "running" in (await container(local_cluster, namespace, "late"))["state"]

    await eventually(running)
    assert not (await container(local_cluster, namespace, "late"))["started"]
    assert (await until_ready(local_cluster, namespace, "late"))["status"]["containerStatuses"][0]["started"]
