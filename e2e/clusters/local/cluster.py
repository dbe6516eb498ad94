"""The local cluster as one object: started whole, its parts at hand for fault tests, ended whole.

Everything started here is a child of this process, ended in reverse order on exit and killed by the kernel should this process die first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from e2e import toolchain
from e2e.clusters.api import ApiCluster
from e2e.clusters.kube import ApiError, Manifest, write_kubeconfig
from e2e.clusters.local import controlplane, pki, ports, process, prometheus
from e2e.clusters.local.component import Component
from e2e.clusters.local.config import Image, NodeConfig, NodePools
from e2e.clusters.local.images import default_images
from e2e.toolchain.catalogue import CLUSTER_TOOLS

_REPOSITORY = Path(__file__).resolve().parents[3]
_TOKEN_SECONDS = 24 * 3600
_STORAGE_CLASS: Manifest = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "kubernetes.io/host-path",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a cluster differs from the default one; see `LocalCluster.start`."""

    state_dir: Path
    nodes: NodePools
    images: Sequence[Image]
    prometheus: bool
    scrape_interval_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float


class LocalCluster(ApiCluster):
    """A running cluster; `client` speaks as its administrator."""

    def __init__(self, settings: Settings, binaries: dict[str, Path], addresses: ports.AddressBlock) -> None:
        self._settings = settings
        self._binaries = binaries
        self._addresses = addresses
        self.state_dir = settings.state_dir
        authority = pki.Authority.create(self.state_dir / "pki")
        private, public = pki.service_account_key(authority.folder)
        numbers = ports.free_ports(6)
        self.plane = controlplane.ControlPlane(
            binaries=binaries,
            state=self.state_dir,
            etcd_port=numbers[0],
            etcd_peer_port=numbers[1],
            apiserver_port=numbers[2],
            controller_manager_port=numbers[3],
            scheduler_port=numbers[4],
            ca_file=authority.certificate_file,
            serving=authority.server("kube-apiserver", dns_names=["localhost", "kubernetes.default.svc"], addresses=["127.0.0.1"]),
            service_account_key=private,
            service_account_public=public,
        )
        self.prometheus_url = f"http://127.0.0.1:{numbers[5]}"
        self._prometheus_port = numbers[5]
        self._authority = authority
        super().__init__(self._client_kubeconfig("mtpilot:admin", "system:masters"), binaries["kubectl"])
        self.etcd = self._component("etcd", self.plane.etcd(), self._http_ready(f"http://127.0.0.1:{self.plane.etcd_port}/health"))
        self.apiserver = self._component("kube-apiserver", self.plane.apiserver(), self._api_ready)
        manager = self.plane.controller_manager(self._client_kubeconfig("system:kube-controller-manager"))
        self.controller_manager = self._component("kube-controller-manager", manager, self._always_ready)
        scheduler = self.plane.scheduler(self._client_kubeconfig("system:kube-scheduler"))
        self.scheduler = self._component("kube-scheduler", scheduler, self._always_ready)
        self.node = self._component("process-node", self._node_command(), self._nodes_ready)
        self.prometheus = self._component("prometheus", self._prometheus_command(), self._http_ready(f"{self.prometheus_url}/-/ready"))
        self._accounts: dict[tuple[str, str], Path] = {}
        self._renewing: asyncio.Task[None] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        *,
        state_dir: Path,
        nodes: NodePools | None = None,
        images: Iterable[Image] = (),
        prometheus: bool = True,
        scrape_interval_seconds: float = 2.0,
        backoff_seconds: float = 10.0,
        backoff_max_seconds: float = 300.0,
    ) -> AsyncIterator[LocalCluster]:
        """Start a cluster in an empty or earlier `state_dir` (its old state is dropped) and stop it at the end of the block.

        `images` come before the default ones; the back-off times are for crashed containers and missing images. Keep `state_dir` short:
        sockets in pods' volumes lie under it. Raises ComponentError with the end of a log when a part does not come up.
        """
        settings = Settings(
            state_dir=state_dir.resolve(),
            nodes=nodes or NodePools(),
            images=tuple(images),
            prometheus=prometheus,
            scrape_interval_seconds=scrape_interval_seconds,
            backoff_seconds=backoff_seconds,
            backoff_max_seconds=backoff_max_seconds,
        )
        binaries = await asyncio.to_thread(toolchain.ensure, CLUSTER_TOOLS)
        _clear(settings.state_dir)
        addresses = ports.AddressBlock.reserve()
        try:
            cluster = cls(settings, binaries, addresses)
            try:
                await cluster._up()
                yield cluster
            finally:
                await cluster.stop()
        finally:
            addresses.release()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.plane.server

    @property
    def audit_log_path(self) -> Path:
        """The API server's audit log: one JSON event a line, with user, verb and object, for every write and every client's read."""
        return self.plane.audit_log

    @property
    def haproxy(self) -> Path:
        """The HAProxy binary that stands for the gateway's image."""
        return self._binaries["haproxy"]

    def log_path(self, namespace: str, pod: str, container: str) -> Path:
        """The file with a container's output, over all its restarts."""
        return self.state_dir / "logs" / "pods" / namespace / pod / f"{container}.log"

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Give a kubeconfig with a token of a service account, which must exist; the token is renewed while the cluster runs."""
        token_file = self.state_dir / "accounts" / f"{namespace}.{name}.token"
        token_file.parent.mkdir(exist_ok=True)
        await self._mint(namespace, name, token_file)
        self._accounts[namespace, name] = token_file
        path = token_file.with_suffix(".kubeconfig")
        user = {"tokenFile": str(token_file)}
        return write_kubeconfig(path, server=self.server, ca_file=self._authority.certificate_file, user=user, namespace=namespace)

    async def stop(self) -> None:
        """End every part in reverse order, and what a part may have left; the state folder stays for its logs."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        for component in (self.prometheus, self.node, self.scheduler, self.controller_manager, self.apiserver, self.etcd):
            await component.stop()
        process.sweep(self.state_dir)
        await self.close()

    async def _up(self) -> None:
        await self.open()
        await self.etcd.start()
        await self.apiserver.start()
        async with asyncio.TaskGroup() as group:
            for component in (self.controller_manager, self.scheduler, self.node):
                group.create_task(component.start())
            group.create_task(self._prepare())
        if self._settings.prometheus:
            await self.service_account_kubeconfig(prometheus.NAMESPACE, prometheus.SERVICE_ACCOUNT)
            await self.prometheus.start()
        self._renewing = asyncio.create_task(self._renew())

    async def _prepare(self) -> None:
        await self.apply([_STORAGE_CLASS, *(prometheus.RBAC if self._settings.prometheus else [])])
        await self.until_account("default", "default")

    async def _mint(self, namespace: str, name: str, token_file: Path) -> None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN_SECONDS}}
        answer = await self.client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        temporary = token_file.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(answer["status"]["token"])
        temporary.replace(token_file)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_TOKEN_SECONDS / 2)
            for (namespace, name), token_file in self._accounts.items():
                with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
                    await self._mint(namespace, name, token_file)

    def _component(self, name: str, command: Sequence[str | Path], ready: Callable[[], Awaitable[bool]]) -> Component:
        environment = os.environ | {"PYTHONPATH": str(_REPOSITORY)}
        return Component(name, command, state=self.state_dir, ready=ready, environment=environment)

    def _client_kubeconfig(self, user: str, group: str | None = None) -> Path:
        pair = self._authority.client(user, group=group)
        entry = {"client-certificate": str(pair.certificate_file), "client-key": str(pair.key_file)}
        path = self.state_dir / f"{pair.certificate_file.stem}.kubeconfig"
        return write_kubeconfig(path, server=self.server, ca_file=self._authority.certificate_file, user=entry)

    def _node_command(self) -> list[str | Path]:
        config = NodeConfig(
            nodes=self._settings.nodes.specs(),
            images=[*self._settings.images, *default_images(self.haproxy)],
            network=self._addresses.network,
            state=self.state_dir,
            backoff_seconds=self._settings.backoff_seconds,
            backoff_max_seconds=self._settings.backoff_max_seconds,
        )
        path = config.dump(self.state_dir / "nodes.yaml")
        kubeconfig = self._client_kubeconfig("mtpilot:process-node", "system:masters")
        return [sys.executable, "-m", "e2e.clusters.local.node", "--kubeconfig", kubeconfig, "--config", path]

    def _prometheus_command(self) -> list[str | Path]:
        return prometheus.command(
            self._binaries["prometheus"],
            state=self.state_dir,
            port=self._prometheus_port,
            kubeconfig=self.state_dir / "accounts" / f"{prometheus.NAMESPACE}.{prometheus.SERVICE_ACCOUNT}.kubeconfig",
            scrape_interval_seconds=self._settings.scrape_interval_seconds,
        )

    async def _api_ready(self) -> bool:
        url = f"{self.server}/readyz"
        try:
            async with self.client.session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _nodes_ready(self) -> bool:
        nodes = (await self.client.get("/api/v1/nodes"))["items"]
        wanted = {spec.name for spec in self._settings.nodes.specs()}
        return wanted <= {node["metadata"]["name"] for node in nodes if _is_ready(node)}

    async def _always_ready(self) -> bool:
        return True

    def _http_ready(self, url: str) -> Callable[[], Awaitable[bool]]:
        async def ready() -> bool:
            try:
                async with self.client.session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                    return answer.status == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        return ready


def _is_ready(node: Manifest) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and not any(
        taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", [])
    )


def _clear(state: Path) -> None:
    """End what an earlier run in this folder left and drop its state."""
    if state.exists():
        process.sweep(state)
        shutil.rmtree(state)
    state.mkdir(parents=True)
