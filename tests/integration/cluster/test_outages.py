"""The API server or the node goes away: pods run on, or run again, and nothing is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

from e2e.clusters.kube import STRATEGIC
from e2e.clusters.local import LocalCluster
from e2e.clusters.local.node.agent import is_ready
from tests.integration.cluster.pods import HTTP_PROBE, PORTS, SERVER, container, output, post, until_ready
from tests.integration.support import eventually, pod


async def test_api_server_outage_leaves_pods_running_and_is_caught_up(local_cluster: LocalCluster, namespace: str) -> None:
    await local_cluster.apply([pod("steady", SERVER, ports=PORTS, readinessProbe=HTTP_PROBE)], namespace=namespace)
    address = (await until_ready(local_cluster, namespace, "steady"))["status"]["podIP"]
    await local_cluster.apiserver.kill()
    await post(address, "/break")
    await asyncio.sleep(2.5)
    await local_cluster.apiserver.start()

    async def unready() -> bool:
        return not (await container(local_cluster, namespace, "steady"))["ready"]

    await eventually(unready)
    assert (await container(local_cluster, namespace, "steady"))["restartCount"] == 0


async def test_killed_node_leaves_no_orphan_and_runs_its_pods_again(local_cluster: LocalCluster, namespace: str) -> None:
    script = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "600"])
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
    await local_cluster.apply([pod("orphan", script)], namespace=namespace)
    await until_ready(local_cluster, namespace, "orphan")

    async def printed() -> str:
        return output(local_cluster, namespace, "orphan")

    pids = [int(word) for word in (await eventually(printed)).split()]

    def alive() -> list[int]:
        return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and ") Z" not in Path(f"/proc/{pid}/stat").read_text()]

    assert alive() == pids
    await local_cluster.node.kill()

    async def main_dead() -> bool:
        return pids[0] not in alive()

    await eventually(main_dead, seconds=5)
    await local_cluster.node.start()

    async def all_dead() -> bool:
        return not alive()

    await eventually(all_dead, seconds=10)

    async def again() -> bool:
        found = await container(local_cluster, namespace, "orphan")
        return found["restartCount"] == 1 and "running" in found["state"]

    await eventually(again)


async def test_node_that_was_given_up_says_ready_again(local_cluster: LocalCluster) -> None:
    """The node controller gives nodes up when the API server was away for long; renewed leases alone do not undo that."""
    path = "/api/v1/nodes/l4-0"
    given_up = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    await local_cluster.client.patch(f"{path}/status", {"status": {"conditions": [given_up]}}, content_type=STRATEGIC)

    async def ready() -> bool:
        conditions = (await local_cluster.client.get(path))["status"]["conditions"]
        return any(is_ready(condition) for condition in conditions)

    assert not await ready()
    await eventually(ready, seconds=30)
