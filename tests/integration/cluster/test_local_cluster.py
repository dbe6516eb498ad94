"""The local cluster does to pods what a real one does, as far as a drain, a flip or a rollback can tell."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.clusters.kube import STRATEGIC, ApiError, KubeClient, Kubeconfig
from e2e.clusters.local import LocalCluster
from e2e.clusters.local.node.agent import is_ready
from tests.integration.support import eventually, pod

SERVER = """
import http.server, os, pathlib, signal, sys, threading
flag = pathlib.Path(os.environ["HOME"], "healthy"); flag.touch()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ok = self.path != "/healthy" or flag.exists()
        self.send_response(200 if ok else 503); self.send_header("Content-Type", "text/plain"); self.end_headers()
        self.wfile.write(b"mtpilot_test 1\\n")
    def do_POST(self):
        flag.unlink() if self.path == "/break" else flag.touch()
        self.send_response(200); self.end_headers()
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
"""
HTTP_PROBE = {"httpGet": {"path": "/healthy", "port": "http"}, "periodSeconds": 1, "failureThreshold": 2}
PORTS = [{"name": "http", "containerPort": 8000}]
FOREVER = "import time; time.sleep(600)"


async def read(cluster: LocalCluster, namespace: str, name: str) -> dict[str, Any]:
    return await cluster.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")


async def container(cluster: LocalCluster, namespace: str, name: str) -> dict[str, Any]:
    statuses = (await read(cluster, namespace, name)).get("status", {}).get("containerStatuses")
    return statuses[0] if statuses else {"state": {}, "lastState": {}, "ready": False, "restartCount": 0}


async def gone(cluster: LocalCluster, namespace: str, name: str) -> bool:
    try:
        await read(cluster, namespace, name)
    except ApiError as error:
        return error.status == 404
    return False


async def until_ready(cluster: LocalCluster, namespace: str, name: str) -> dict[str, Any]:
    async def ready() -> dict[str, Any] | None:
        found = await read(cluster, namespace, name)
        conditions = {c["type"]: c["status"] for c in found["status"].get("conditions", [])}
        return found if conditions.get("Ready") == "True" else None

    return await eventually(ready)


async def post(address: str, path: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"http://{address}:8000{path}") as answer:
        assert answer.status == 200


def output(cluster: LocalCluster, namespace: str, name: str, which: str = "main") -> str:
    path = cluster.log_path(namespace, name, which)
    return path.read_text() if path.exists() else ""


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


async def test_environment_and_volumes_reach_the_process(local_cluster: LocalCluster, namespace: str) -> None:
    script = """
import json, os, pathlib
names = ("POD_NAME", "POD_IP", "NODE", "FROM_MAP", "FROM_SECRET", "JOINED", "P_color", "LIMIT", "ADDRESS")
print(json.dumps({name: os.environ.get(name) for name in names} | {"file": pathlib.Path(os.environ["CONFIG"]).read_text()}), flush=True)
pathlib.Path(os.environ["SCRATCH"], "written").touch()
while True: __import__("time").sleep(60)
"""
    variables: list[dict[str, Any]] = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "color"}}},
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}},
        {"name": "JOINED", "value": "$(POD_NAME)-$$(x)"},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "ADDRESS", "value": "http://0.0.0.0:80"},
        {"name": "CONFIG", "value": "/etc/app/color"},
        {"name": "SCRATCH", "value": "/scratch"},
    ]
    manifest = pod(
        "env",
        script,
        env=variables,
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "map"}}],
        resources={"limits": {"cpu": "1500m"}},
        volumeMounts=[{"name": "map", "mountPath": "/etc/app"}, {"name": "claim", "mountPath": "/scratch"}],
        pod_spec={
            "volumes": [
                {"name": "map", "configMap": {"name": "map"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "models"}},
            ]
        },
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"color": "blue"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"key": "hush"}}
    await local_cluster.apply([claim, manifest], namespace=namespace)
    await asyncio.sleep(1.0)
    assert (await read(local_cluster, namespace, "env"))["status"]["phase"] == "Pending"
    await local_cluster.apply([config, secret], namespace=namespace)
    found = await until_ready(local_cluster, namespace, "env")

    async def printed() -> str:
        return output(local_cluster, namespace, "env")

    address = found["status"]["podIP"]
    assert json.loads(await eventually(printed)) == {
        "POD_NAME": "env",
        "POD_IP": address,
        "NODE": found["spec"]["nodeName"],
        "FROM_MAP": "blue",
        "FROM_SECRET": "hush",
        "JOINED": "env-$(x)",
        "P_color": "blue",
        "LIMIT": "2",
        "ADDRESS": f"http://{address}:80",
        "file": "blue",
    }
    written = Path(local_cluster.state_dir, "claims", namespace, "models", "written")
    await eventually(lambda: asyncio.to_thread(written.exists))


async def test_pod_speaks_to_the_api_as_its_service_account_only(local_cluster: LocalCluster, namespace: str) -> None:
    script = """
import json, os, ssl, urllib.error, urllib.request, yaml
config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
def call(path, body=None):
    request = urllib.request.Request(cluster["server"] + path, data=body, headers={
        "Authorization": "Bearer " + open(user["tokenFile"]).read(), "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=cluster["certificate-authority"])) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code
review = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
name = call("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]["username"]
print(json.dumps([name, call("/api/v1/nodes")]), flush=True)
__import__("time").sleep(600)
"""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent"}}
    await local_cluster.apply([account, pod("agent", script, pod_spec={"serviceAccountName": "agent"})], namespace=namespace)

    async def printed() -> str:
        return output(local_cluster, namespace, "agent")

    name = f"system:serviceaccount:{namespace}:agent"
    assert json.loads(await eventually(printed)) == [name, 403]
    kubeconfig = await local_cluster.service_account_kubeconfig(namespace, "agent")
    async with KubeClient(Kubeconfig.load(kubeconfig)) as client:
        with pytest.raises(ApiError) as refused:
            await client.get("/api/v1/nodes")
    assert refused.value.status == 403

    def audited() -> list[dict[str, Any]]:
        events = map(json.loads, local_cluster.audit_log_path.read_text().splitlines())
        return [event for event in events if event["user"]["username"] == name and event["objectRef"]["resource"] == "nodes"]

    found = await eventually(lambda: asyncio.to_thread(audited))
    assert {event["verb"] for event in found} == {"list"}


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


async def test_prometheus_scrapes_annotated_pods_with_their_identity(local_cluster: LocalCluster, namespace: str) -> None:
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000", "prometheus.io/path": "/anything"}
    manifest = pod("scraped", SERVER, ports=PORTS, annotations=annotations)
    manifest["metadata"]["labels"] |= {"mtpilot.dev/service": "chat", "mtpilot.dev/mode": "mtp", "mtpilot.dev/component": "engine"}
    await local_cluster.apply([manifest], namespace=namespace)
    found = await until_ready(local_cluster, namespace, "scraped")
    url = f"{local_cluster.prometheus_url}/api/v1/query"

    async def series() -> list[dict[str, Any]]:
        query = {"query": f'mtpilot_test{{namespace="{namespace}"}}'}
        async with local_cluster.client.session.get(url, params=query) as answer:
            results: list[dict[str, Any]] = (await answer.json())["data"]["result"]
            return results

    (only,) = await eventually(series)
    expected = {
        "job": "mtpilot-pods",
        "namespace": namespace,
        "pod": "scraped",
        "pod_uid": found["metadata"]["uid"],
        "node": found["spec"]["nodeName"],
        "mtpilot_dev_service": "chat",
        "mtpilot_dev_mode": "mtp",
        "mtpilot_dev_component": "engine",
    }
    assert expected.items() <= only["metric"].items()


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
