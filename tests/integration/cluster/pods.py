"""What the tests of the local cluster share: a small server as a container, and reading what became of a pod."""

from __future__ import annotations

from typing import Any

import aiohttp

from e2e.clusters.kube import ApiError
from e2e.clusters.local import LocalCluster
from tests.integration.support import eventually

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
