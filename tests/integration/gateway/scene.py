"""A service's gateway as Kubernetes runs it: its objects applied, its pods and small engines started by a node."""

from typing import Any

from e2e.clusters.kube import APPLY
from e2e.clusters.local import LocalCluster
from mtpilot.gateway.admin_socket import AdminSocket
from mtpilot.gateway.pods import ServerState
from mtpilot.model.names import COMPONENT_GATEWAY, LABEL_COMPONENT, LABEL_SERVICE, LABEL_SERVING, LABEL_SLOT, service_labels
from mtpilot.model.snapshot import Manifest, Service
from tests.integration.support import eventually

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


def url(gateway: Manifest, scheme: str = "http") -> str:
    return f"{scheme}://{gateway['status']['podIP']}:8080"
