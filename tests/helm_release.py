"""A release of the chart by the real Helm, on any cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.clusters.api import ApiCluster
from tests.chart_rendering import CHART, helm_binary


@dataclass(slots=True)
class HelmRelease:
    """The release `mtpilot` in a namespace; `values` are those of every install of it, `home` is where Helm keeps its files."""

    cluster: ApiCluster
    namespace: str
    home: Path
    values: Mapping[str, object]

    async def helm(self, *arguments: str) -> str:
        """Run Helm in the release's namespace and give its output; AssertionError with the pods' state where it fails."""
        home = {f"HELM_{kind}_HOME": str(self.home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        process = await asyncio.create_subprocess_exec(
            helm_binary(),
            *arguments,
            *("--namespace", self.namespace),
            env={**os.environ, **home, "KUBECONFIG": str(self.cluster.admin_kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode() + await self.logs()
        return output.decode()

    async def logs(self) -> str:
        """State and last lines of the release's pods: what a failed `--wait` does not say."""
        found = await self.cluster.kubectl("get", "pods,events", "--namespace", self.namespace, "--output=wide", check=False)
        for name in ("mtpilot", "mtpilot-prometheus"):
            found += await self.cluster.kubectl("logs", "--namespace", self.namespace, f"deployment/{name}", "--tail=40", check=False)
        return found

    async def install(self, *values: str, chart: Path = CHART, timeout_seconds: int = 90) -> str:
        """Install or upgrade; CRDs that were applied otherwise are taken over."""
        options = [f"--set={key}={value}" for key, value in self.values.items()] + [f"--set={value}" for value in values]
        waiting = ("--take-ownership", "--wait", f"--timeout={timeout_seconds}s")
        return await self.helm("upgrade", "--install", "mtpilot", str(chart), *waiting, *options)

    async def uninstall(self) -> str:
        return await self.helm("uninstall", "mtpilot", "--wait", "--timeout=120s")

    async def objects(self) -> set[str]:
        """What is left in the release's namespace, Kubernetes' own aside."""
        found = set()
        for path in ("/apis/apps/v1:deployments", "/api/v1:pods", "/api/v1:serviceaccounts", "/apis/batch/v1:jobs", "/api/v1:services"):
            group, _, resource = path.partition(":")
            for item in (await self.cluster.client.get(f"{group}/namespaces/{self.namespace}/{resource}"))["items"]:
                found.add(f"{resource}/{item['metadata']['name']}")
        return found - {"serviceaccounts/default"}


async def restricted_namespace(cluster: ApiCluster, name: str) -> str:
    """A namespace that enforces Pod Security `restricted`."""
    await cluster.create_namespace(name)
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}
    await cluster.client.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    return name
