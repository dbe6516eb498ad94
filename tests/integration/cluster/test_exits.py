"""Containers that end by themselves, or never start: what their status tells. A rollback hangs on it."""

from __future__ import annotations

from typing import Any

from e2e.clusters.local import LocalCluster
from tests.integration.cluster.pods import container, read
from tests.integration.support import eventually, pod


async def test_crashing_container_backs_off_and_tells_its_exit_code(local_cluster: LocalCluster, namespace: str) -> None:
    await local_cluster.apply([pod("crash", "import sys; sys.exit(3)")], namespace=namespace)

    async def backing_off() -> dict[str, Any] | None:
        found = await container(local_cluster, namespace, "crash")
        waiting = found["state"].get("waiting", {})
        return found if waiting.get("reason") == "CrashLoopBackOff" and found["restartCount"] >= 2 else None

    found = await eventually(backing_off)
    assert found["lastState"]["terminated"]["exitCode"] == 3
    assert found["lastState"]["terminated"]["reason"] == "Error"
    assert (await read(local_cluster, namespace, "crash"))["status"]["phase"] == "Running"


async def test_finished_pod_succeeds_and_a_failed_one_fails(local_cluster: LocalCluster, namespace: str) -> None:
    never = {"restartPolicy": "Never"}
    await local_cluster.apply(
        [pod("good", "pass", pod_spec=never), pod("bad", "import os; os.kill(os.getpid(), 9)", pod_spec=never)], namespace=namespace
    )

    async def phases() -> bool:
        found = [(await read(local_cluster, namespace, name))["status"]["phase"] for name in ("good", "bad")]
        return found == ["Succeeded", "Failed"]

    await eventually(phases)
    assert (await container(local_cluster, namespace, "bad"))["state"]["terminated"]["exitCode"] == 137


async def test_unknown_image_is_a_pull_error(local_cluster: LocalCluster, namespace: str) -> None:
    await local_cluster.apply([pod("lost", image="nobody/has-this:1")], namespace=namespace)
    seen = set()

    async def both() -> bool:
        seen.add((await container(local_cluster, namespace, "lost"))["state"].get("waiting", {}).get("reason"))
        return seen >= {"ErrImagePull", "ImagePullBackOff"}

    await eventually(both)
    assert (await read(local_cluster, namespace, "lost"))["status"]["phase"] == "Pending"
