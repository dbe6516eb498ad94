"""The end of a pod: hook, SIGTERM, grace, SIGKILL, and the order of its containers. A drain hangs on it."""

from __future__ import annotations

import asyncio
import time

from e2e.clusters.local import LocalCluster
from tests.integration.cluster.pods import gone, output, until_ready
from tests.integration.support import eventually, pod


async def test_end_runs_the_hook_then_sigterm_and_lets_the_process_finish(local_cluster: LocalCluster, namespace: str) -> None:
    script = """
import signal, sys, time
def end(*_): print("term", flush=True); time.sleep(1); print("done", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, end); print("up", flush=True)
while True: time.sleep(60)
"""
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 1; echo hook > /trace/hook"]}}}
    trace = {"name": "trace", "hostPath": {"path": f"/{namespace}", "type": "DirectoryOrCreate"}}
    mount = [{"name": "trace", "mountPath": "/trace"}]
    manifest = pod("drained", script, lifecycle=hook, volumeMounts=mount, pod_spec={"volumes": [trace]})
    await local_cluster.apply([manifest], namespace=namespace)

    async def up() -> bool:
        return "up" in output(local_cluster, namespace, "drained")

    await eventually(up)
    began = time.monotonic()
    await local_cluster.client.delete(f"/api/v1/namespaces/{namespace}/pods/drained")
    await asyncio.sleep(0.5)
    assert output(local_cluster, namespace, "drained").split() == ["up"]
    await eventually(lambda: gone(local_cluster, namespace, "drained"))
    assert 2.0 <= time.monotonic() - began < 5.0
    assert output(local_cluster, namespace, "drained").split() == ["up", "term", "done"]
    assert (local_cluster.state_dir / "host" / namespace / "hook").read_text() == "hook\n"


async def test_sigterm_ignored_is_killed_after_the_grace(local_cluster: LocalCluster, namespace: str) -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    await local_cluster.apply([pod("stubborn", script, pod_spec={"terminationGracePeriodSeconds": 3})], namespace=namespace)

    async def up() -> bool:
        return "up" in output(local_cluster, namespace, "stubborn")

    await eventually(up)
    began = time.monotonic()
    await local_cluster.client.delete(f"/api/v1/namespaces/{namespace}/pods/stubborn")
    await eventually(lambda: gone(local_cluster, namespace, "stubborn"))
    assert 3.0 <= time.monotonic() - began < 6.0


async def test_init_containers_run_first_and_sidecars_end_last(local_cluster: LocalCluster, namespace: str) -> None:
    trace = """
import os, signal, sys, time
def say(word): os.write(1, f"{time.time()} {word}\\n".encode())
signal.signal(signal.SIGTERM, lambda *_: (say("end"), sys.exit(0)))
say("begin")
while "{loop}": time.sleep(60)
"""
    image = {"image": "python:3"}
    init = [
        {"name": "first", **image, "command": ["python3", "-c", trace.replace("{loop}", "")]},
        {"name": "side", **image, "restartPolicy": "Always", "command": ["python3", "-c", trace]},
    ]
    await local_cluster.apply([pod("ordered", trace, pod_spec={"initContainers": init})], namespace=namespace)
    await until_ready(local_cluster, namespace, "ordered")

    def times(which: str) -> dict[str, float]:
        lines = [line.split() for line in output(local_cluster, namespace, "ordered", which).splitlines()]
        return {word: float(at) for at, word in lines}

    async def began() -> bool:
        return all("begin" in times(name) for name in ("first", "side", "main"))

    await eventually(began)
    await local_cluster.client.delete(f"/api/v1/namespaces/{namespace}/pods/ordered")
    await eventually(lambda: gone(local_cluster, namespace, "ordered"))
    assert times("first")["begin"] < times("side")["begin"]
    assert times("first")["begin"] < times("main")["begin"]
    assert times("main")["end"] < times("side")["end"]
