"""The gateway as Kubernetes runs it: its objects applied, its pods started by a node, its own account at the API server."""

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import psutil
import pytest

from e2e.clusters.kube import APPLY
from e2e.clusters.local import LocalCluster
from mtpilot.gateway.admin_socket import AdminSocket
from mtpilot.gateway.pods import ServerState
from mtpilot.model.names import COMPONENT_GATEWAY, LABEL_COMPONENT, LABEL_MODE, LABEL_SERVICE, LABEL_SERVING, LABEL_SLOT, service_labels
from mtpilot.model.snapshot import Manifest, Service
from mtpilot.render.gateway import render_gateway
from mtpilot.render.gateway_pod import stop_grace_seconds
from mtpilot.render.routing import render_routing
from tests.integration.support import eventually
from tests.unit.render.samples import service as sample_service
from tests.unit.render.samples import small_spec

# Answers with its own name; /v1/slow takes as many seconds as the body says, one event each.
ENGINE = """
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b'{"loads": [{"max_running_requests": 5}]}' if self.path == "/v1/loads" else b"ok"
        self.answer(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/slow":
            self.send_response(200); self.send_header("Connection", "close"); self.end_headers()
            for second in range(int(body)):
                self.wfile.write(b"data: %d\\n\\n" % second); time.sleep(1)
            self.close_connection = True
        else:
            self.answer(os.environ["POD_NAME"].encode())
    def answer(self, body):
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 30000), Handler).serve_forever()
"""


def engine_pod(index: int, namespace: str) -> Manifest:
    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    container = {
        "name": "engine",
        "image": "python:3",
        "command": ["python3", "-c", ENGINE],
        "args": ["--max-running-requests", "8"],
        "env": [field("POD_IP", "status.podIP"), field("POD_NAME", "metadata.name")],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 30000}, "periodSeconds": 1},
    }
    labels = {**service_labels("chat", "engine"), LABEL_SLOT: f"chat-r{index}"}
    metadata = {"name": f"chat-r{index}", "namespace": namespace, "labels": labels}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Scene:
    """A service's gateway and engine pods in one namespace."""

    def __init__(self, cluster: LocalCluster, made: Service) -> None:
        self.cluster = cluster
        self.service = made
        self.pods_path = f"/api/v1/namespaces/{made.namespace}/pods"

    async def apply(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            metadata = {name: part for name, part in manifest["metadata"].items() if name != "ownerReferences"}  # its owner is not there
            path = await self.cluster.client.path_of(manifest)
            await self.cluster.client.patch(path, manifest | {"metadata": metadata}, content_type=APPLY, fieldManager="test", force="true")

    async def gateways(self) -> list[Manifest]:
        """The gateway pods that are ready and stay."""
        answer = await self.cluster.client.get(
            self.pods_path, labelSelector=f"{LABEL_SERVICE}={self.service.name},{LABEL_COMPONENT}={COMPONENT_GATEWAY}"
        )
        return [pod for pod in answer["items"] if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    async def label_serving(self, name: str, serving: bool) -> None:
        labels = {LABEL_SERVING: str(serving).lower()}
        await self.cluster.client.patch(f"{self.pods_path}/{name}", {"metadata": {"labels": labels}})


def is_ready(pod: Manifest) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", []))


@pytest.fixture
async def scene(local_cluster: LocalCluster, namespace: str) -> Scene:
    made = sample_service(small_spec(gateway={"replicas": 2, "queueTimeout": "30s"}), namespace=namespace)
    scene = Scene(local_cluster, made)
    await scene.apply(*render_gateway(made), *(engine_pod(index, namespace) for index in range(2)))

    async def two_gateways() -> bool:
        return len(await scene.gateways()) == 2

    await eventually(two_gateways, seconds=40)
    return scene


def admin_socket(scene: Scene, gateway: Manifest) -> AdminSocket:
    """HAProxy's socket in the pod's scratch volume, as the node lays it out."""
    return AdminSocket(scene.cluster.state_dir / "p" / gateway["metadata"]["uid"][:8] / "sockets" / "admin.sock")


async def serving(scene: Scene, gateway: Manifest) -> set[str]:
    """Names of the servers that take requests."""
    pool = await admin_socket(scene, gateway).pool()
    return {server.name for server in pool.servers if server.state is ServerState.READY}


async def until_serving(scene: Scene, gateways: list[Manifest], names: set[str], *, seconds: float = 20) -> None:
    async def agreed() -> bool:
        return all([await serving(scene, gateway) == names for gateway in gateways])

    await eventually(agreed, seconds=seconds, every_seconds=0.01)


def url(gateway: Manifest) -> str:
    return f"http://{gateway['status']['podIP']}:8080"


async def test_pods_reach_haproxy_in_under_a_second(scene: Scene) -> None:
    gateways = await scene.gateways()
    await until_serving(scene, gateways, {"r0", "r1"})

    async def engines_own_word() -> bool:
        pool = await admin_socket(scene, gateways[0]).pool()
        return [server.maxconn for server in pool.servers[:2]] == [3, 3]  # each gateway its half of 5; the argument says 8

    await eventually(engines_own_word)
    times = []
    for on in (False, True, False, True):
        began = time.monotonic()
        await scene.label_serving("chat-r0", on)
        await until_serving(scene, gateways, {"r0", "r1"} if on else {"r1"}, seconds=2)
        times.append(time.monotonic() - began)
    assert sorted(times)[2] < 1.0, times  # one of the four may have met a busy machine


async def test_a_published_limit_reaches_running_gateways(scene: Scene) -> None:
    """Both modes serve: without a limit both are in the pool, with one the mtp replica is in the lane, and no pod is rolled."""
    gateways = await scene.gateways()
    for name, mode in (("chat-r0", "mtp"), ("chat-r1", "batch")):
        await scene.cluster.client.patch(f"{scene.pods_path}/{name}", {"metadata": {"labels": {LABEL_MODE: mode}}})
    await until_serving(scene, gateways, {"r0", "r1"})
    await scene.apply(render_routing(scene.service, 2))

    async def in_the_lane() -> bool:
        pools = [await admin_socket(scene, gateway).pool() for gateway in gateways]
        return all(
            [(server.name, server.maxconn) for server in pool.lane if server.state is ServerState.READY] == [("r0", 1)] for pool in pools
        )

    await eventually(in_the_lane, seconds=90)
    async with aiohttp.ClientSession() as session, session.post(f"{url(gateways[0])}/v1/x", data=b"1") as response:
        assert (response.headers["x-mtpilot-replica"], response.headers["x-mtpilot-mode"]) == ("r0", "mtp")
    names = {gateway["metadata"]["name"] for gateway in gateways}
    assert {gateway["metadata"]["name"] for gateway in await scene.gateways()} == names


async def test_a_deleted_gateway_finishes_its_streams(scene: Scene) -> None:
    gateway, *_ = await scene.gateways()
    await until_serving(scene, [gateway], {"r0", "r1"})
    async with aiohttp.ClientSession() as session, session.post(f"{url(gateway)}/v1/slow", data=b"12") as response:
        assert response.status == 200
        await scene.cluster.client.delete(f"{scene.pods_path}/{gateway['metadata']['name']}")
        events = (await response.read()).decode().split("\n\n")
    assert events == [*(f"data: {second}" for second in range(12)), ""]

    async def gone() -> bool:
        answer = await scene.cluster.client.get(scene.pods_path)
        return gateway["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in answer["items"]}

    await eventually(gone, seconds=15)
    assert stop_grace_seconds(scene.service) > 60, "it went because it was done, not because its grace had ended"


async def test_a_killed_agent_disturbs_nobody(scene: Scene) -> None:
    gateway, *_ = await scene.gateways()
    await until_serving(scene, [gateway], {"r0", "r1"})
    agent_process(gateway).kill()
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            async with session.post(f"{url(gateway)}/v1/x", data=b"1") as response:
                assert response.status == 200
            assert await serving(scene, gateway) == {"r0", "r1"}
            await asyncio.sleep(0.05)
    await scene.label_serving("chat-r1", False)
    await until_serving(scene, [gateway], {"r0"}, seconds=15)


def agent_process(gateway: Manifest) -> psutil.Process:
    """The agent's process, found by the address that only it was given."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "gateway-agent" in process.cmdline() and process.environ().get("POD_IP") == gateway["status"]["podIP"]:
                return process
    raise AssertionError("no agent")


async def test_without_the_api_server_everything_goes_on(scene: Scene) -> None:
    gateway, *_ = await scene.gateways()
    await until_serving(scene, [gateway], {"r0", "r1"})
    await scene.cluster.apiserver.stop()
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(30):
                async with session.post(f"{url(gateway)}/v1/x", data=b"1") as response:
                    assert response.status == 200
                await asyncio.sleep(0.1)
        assert await serving(scene, gateway) == {"r0", "r1"}
    finally:
        await scene.cluster.apiserver.start()
    await scene.label_serving("chat-r1", False)
    await until_serving(scene, [gateway], {"r0"}, seconds=10)


async def test_requests_wait_for_the_first_replica(scene: Scene) -> None:
    gateways = await scene.gateways()
    for index in range(2):
        await scene.label_serving(f"chat-r{index}", False)
    await until_serving(scene, gateways, set())
    async with aiohttp.ClientSession() as session:

        async def ask(gateway: Manifest) -> str:
            async with session.post(f"{url(gateway)}/v1/x", data=b"1") as response:
                return await response.text()

        waiting = [asyncio.create_task(ask(gateway)) for gateway in gateways for _ in range(5)]
        await asyncio.sleep(1)
        assert not any(request.done() for request in waiting)
        await scene.label_serving("chat-r1", True)
        assert set(await asyncio.gather(*waiting)) == {"chat-r1"}
