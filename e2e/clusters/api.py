"""What every cluster of the test bed offers, however it runs: the administrator's client, and a few things done through it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from e2e.clusters.kube import ApiError, KubeClient, Kubeconfig, Manifest

_WAIT_SECONDS = 30.0


class ApiCluster:
    """A cluster that is reached by a kubeconfig; `client` speaks as its administrator once it is open."""

    def __init__(self, admin_kubeconfig: Path, kubectl: Path) -> None:
        self.admin_kubeconfig = admin_kubeconfig
        self.client = KubeClient(Kubeconfig.load(admin_kubeconfig))
        self._kubectl = kubectl
        self._open = False

    async def open(self) -> None:
        """Open the client."""
        await self.client.__aenter__()
        self._open = True

    async def close(self) -> None:
        """Close the client, if it is open."""
        if self._open:
            self._open = False
            await self.client.__aexit__(None, None, None)

    async def apply(self, manifests: Iterable[Manifest], *, namespace: str = "default") -> list[Manifest]:
        """Apply manifests server-side in their order; a kind whose CRD has only just been applied is waited for."""
        return [await self._apply(manifest, namespace) for manifest in manifests]

    async def kubectl(self, *arguments: str, check: bool = True) -> str:
        """Run kubectl as administrator and give its output; RuntimeError with its message when it fails and `check` is set."""
        child = await asyncio.create_subprocess_exec(
            self._kubectl,
            *("--kubeconfig", str(self.admin_kubeconfig), *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await child.communicate()
        if child.returncode and check:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {errors.decode().strip()}")
        return output.decode()

    async def until_account(self, namespace: str, name: str) -> None:
        """Wait for the controllers' work in a namespace: before it, pods are refused."""
        async with asyncio.timeout(_WAIT_SECONDS):
            for path in (f"serviceaccounts/{name}", "configmaps/kube-root-ca.crt"):
                while True:
                    try:
                        await self.client.get(f"/api/v1/namespaces/{namespace}/{path}")
                        break
                    except ApiError:
                        await asyncio.sleep(0.1)

    async def create_namespace(self, name: str) -> str:
        """Create a namespace and wait until pods can be created in it; gives the name."""
        await self.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        await self.until_account(name, "default")
        return name

    async def _apply(self, manifest: Manifest, namespace: str) -> Manifest:
        async with asyncio.timeout(_WAIT_SECONDS):
            while True:
                try:
                    return await self.client.apply(manifest, namespace=namespace)
                except (LookupError, ApiError) as error:
                    # A new CRD's group is unknown for a moment, then its path is.
                    if isinstance(error, ApiError) and (error.status != 404 or "." not in manifest["apiVersion"]):
                        raise
                    await asyncio.sleep(0.2)
