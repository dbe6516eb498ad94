"""The node agent: registers Nodes, renews their leases, watches their pods and gives each pod a worker and an address.

One list and one watch serve all nodes. A restarted agent first kills what a killed one left behind (by pid files) and then runs the
bound pods anew, as a machine does after a reboot.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import logging
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiohttp

from e2e.clusters.kube import MERGE, STRATEGIC, ApiError, KubeClient
from e2e.clusters.local.config import NodeConfig, NodeSpec
from e2e.clusters.local.node.environment import PodFacts
from e2e.clusters.local.node.pod import PodWorker
from e2e.clusters.local.node.records import timestamp
from e2e.clusters.local.process import sweep

_log = logging.getLogger(__name__)
_HOST_IP = "127.0.0.1"
_RETRY_SECONDS = 0.5
_CONFLICT = 409
_LEASE_SECONDS = 40
_NOT_READY_TAINT = "node.kubernetes.io/not-ready"
_BOUND = "spec.nodeName!="
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def is_ready(condition: dict[str, Any]) -> bool:
    """Whether a node condition says Ready."""
    return (condition["type"], condition["status"]) == ("Ready", "True")


class NodeAgent:
    """Runs all nodes of one configuration until it is cancelled."""

    def __init__(self, config: NodeConfig, client: KubeClient) -> None:
        self._config = config
        self._client = client
        self._names = {node.name for node in config.nodes}
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._free = _addresses(config.network)
        self._background: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Sweep, register, and serve pods for ever."""
        killed = sweep(self._config.state / "p")
        if killed:
            _log.warning("killed %d process groups of an earlier run", killed)
        try:
            for node in self._config.nodes:
                await self._register(node)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew_leases())
                group.create_task(self._follow_pods())
        finally:
            sweep(self._config.state / "p")

    async def _register(self, node: NodeSpec) -> None:
        labels = {
            "kubernetes.io/hostname": node.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "mtpilot.dev/node": "process",
        }
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "labels": labels | node.labels},
            "spec": {"taints": node.taints, "providerID": f"process://{node.name}"},
        }
        path = f"/api/v1/nodes/{node.name}"
        try:
            await self._client.create("/api/v1/nodes", body)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            await self._client.patch(path, {"metadata": {"labels": labels | node.labels}}, content_type=MERGE)
        await self._client.patch(f"{path}/status", {"status": _node_status(node)}, content_type=STRATEGIC)
        await self._put_lease(node.name)
        # NB: the node controller would take this taint away as well, seconds later.
        taints = (await self._client.get(path))["spec"].get("taints", [])
        kept = [taint for taint in taints if taint["key"] != _NOT_READY_TAINT]
        if kept != taints:
            await self._client.patch(path, {"spec": {"taints": kept}}, content_type=MERGE)

    async def _put_lease(self, name: str) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": _micro_time()},
        }
        try:
            await self._client.create(_LEASES, body)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            await self._client.patch(f"{_LEASES}/{name}", {"spec": {"renewTime": _micro_time()}}, content_type=MERGE)

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._config.lease_renew_seconds)
            for node in self._config.nodes:
                try:
                    await self._client.patch(f"{_LEASES}/{node.name}", {"spec": {"renewTime": _micro_time()}}, content_type=MERGE)
                except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                    _log.info("lease of %s: %s", node.name, error)
            try:
                await self._say_ready_again()
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                _log.info("state of the nodes: %s", error)

    async def _say_ready_again(self) -> None:
        """Report the status anew for nodes that the node controller gave up while the API server was away; a lease does not undo that."""
        nodes = (await self._client.get("/api/v1/nodes", resourceVersion="0"))["items"]
        ready = {node["metadata"]["name"] for node in nodes if any(is_ready(found) for found in node["status"].get("conditions") or ())}
        for node in self._config.nodes:
            if node.name not in ready:
                _log.info("%s is said to be not ready; reporting again", node.name)
                await self._client.patch(f"/api/v1/nodes/{node.name}/status", {"status": _node_status(node)}, content_type=STRATEGIC)

    async def _follow_pods(self) -> None:
        """List, then watch from there; start over when the watch is refused or the server was away."""
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._relist()
                async for event in self._client.watch("/api/v1/pods", resource_version=version, field_selector=_BOUND):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._observe(event["type"], event["object"])
            except ApiError as error:
                _log.info("watch of pods: %s", error)
                version = None
                await asyncio.sleep(_RETRY_SECONDS)
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                _log.info("watch of pods: %s", error)
                version = None
                await asyncio.sleep(_RETRY_SECONDS)

    async def _relist(self) -> str:
        listed = await self._client.get("/api/v1/pods", fieldSelector=_BOUND)
        present = set()
        for pod in listed["items"]:
            present.add(pod["metadata"]["uid"])
            self._observe("MODIFIED", pod)
        for uid in self._workers.keys() - present:
            self._workers[uid].vanish()
        version: str = listed["metadata"]["resourceVersion"]
        return version

    def _observe(self, kind: str, pod: dict[str, Any]) -> None:
        if kind == "BOOKMARK" or pod["spec"].get("nodeName") not in self._names:
            return
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if kind == "DELETED":
            if worker is not None:
                worker.vanish()
            return
        if worker is None:
            facts = PodFacts(pod_ip=self._next_address(), host_ip=_HOST_IP, node_name=pod["spec"]["nodeName"])
            worker = self._workers[uid] = PodWorker(pod, facts, self._config, self._client, self._event)
            self._tasks[uid] = asyncio.create_task(self._serve(uid, worker))
        worker.update(pod)

    async def _serve(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            _log.exception("worker of %s", worker.pod["metadata"]["name"])
        finally:
            self._workers.pop(uid, None)
            self._tasks.pop(uid, None)

    def _next_address(self) -> str:
        """Give the address that was free for the longest time."""
        used = {worker.facts.pod_ip for worker in self._workers.values()}
        return next(address for address in self._free if address not in used)

    def _event(self, pod: dict[str, Any], kind: str, reason: str, message: str) -> None:
        task = asyncio.create_task(self._post_event(pod, kind, reason, message))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _post_event(self, pod: dict[str, Any], kind: str, reason: str, message: str) -> None:
        metadata, now = pod["metadata"], timestamp()
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        }
        body = {
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": reference,
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "process-node", "host": pod["spec"].get("nodeName", "")},
        }
        try:
            await self._client.create(f"/api/v1/namespaces/{metadata['namespace']}/events", body)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            _log.info("event %s of %s: %s", reason, metadata["name"], error)


def _addresses(network: ipaddress.IPv4Network) -> Iterator[str]:
    """Go round the block for ever; the first address is the block's claim."""
    size = network.num_addresses - 3
    return (str(network[2 + index % size]) for index in count())


def _node_status(node: NodeSpec) -> dict[str, Any]:
    now = timestamp()
    conditions = [
        {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, status, reason in (
            ("Ready", "True", "KubeletReady"),
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
        )
    ]
    return {
        "capacity": node.capacity,
        "allocatable": node.capacity,
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": _HOST_IP}, {"type": "Hostname", "address": node.name}],
        "nodeInfo": {
            "kubeletVersion": "v1.36.3",
            "containerRuntimeVersion": "process://1",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def _micro_time() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
