"""The chart by the real Helm on a real control plane: installed, upgraded, uninstalled while serving, and installed again.

The release's namespace enforces Pod Security `restricted`. `helm test` needs cluster DNS, which the local cluster does not have.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.clusters.local import LocalCluster
from mtpilot.model.names import FINALIZER
from tests.chart_rendering import CHART
from tests.helm_release import HelmRelease, restricted_namespace
from tests.integration.controller.scene import HARDWARE, Scene, inference_service
from tests.integration.support import eventually

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Release(HelmRelease):
    """A release on the local cluster, which has no `kubectl logs`; `serves` is the namespace that its operator serves."""

    cluster: LocalCluster
    serves: str

    async def logs(self) -> str:
        said = []
        for pod in (await self.cluster.client.get(f"/api/v1/namespaces/{self.namespace}/pods"))["items"]:
            name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
            path = self.cluster.log_path(self.namespace, name, container)
            text = path.read_text(errors="replace")[-3000:] if path.exists() else "no log"
            said.append(f"{name}: {json.dumps(pod['status'])}\n{text}")
        return "\n".join(said)


@pytest.fixture
async def release(local_cluster: LocalCluster, namespace: str, tmp_path: Path) -> AsyncIterator[Release]:
    name = await restricted_namespace(local_cluster, f"{namespace}-system"[:60])
    values = {"prometheus.url": local_cluster.prometheus_url, "prometheus.scrapeIntervalSeconds": 1, "operator.periodSeconds": 1}
    values |= {"watchNamespaces": f"{{{namespace}}}", "cleanup.timeoutSeconds": 60}
    found = Release(local_cluster, name, tmp_path, values, namespace)
    yield found
    if "deployments/mtpilot" in await found.objects():
        await found.helm("uninstall", "mtpilot", "--no-hooks")
    await local_cluster.client.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
async def scene(local_cluster: LocalCluster, namespace: str) -> AsyncIterator[Scene]:
    found = Scene(local_cluster, namespace)
    yield found
    await found.clean()


async def engines(scene: Scene) -> dict[str, Any]:
    pods = await scene.all("pods", "mtpilot.dev/component=engine")
    return {pod["metadata"]["uid"]: pod["metadata"].get("deletionTimestamp") for pod in pods}


async def finalizers(scene: Scene) -> list[str]:
    found = await scene.get("inferenceservices", "chat")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    return list(found["metadata"].get("finalizers") or ())


@pytest.mark.timeout(400)
async def test_a_release_comes_goes_and_comes_again_under_serving_pods(release: Release, scene: Scene) -> None:
    notes = await release.install()
    assert "helm test mtpilot" in notes
    await release.cluster.apply([HARDWARE])
    await scene.apply(inference_service())
    await scene.until_ready()
    serving = await engines(scene)
    assert len(serving) == 2

    await release.install("operator.logLevel=DEBUG")
    assert await engines(scene) == serving

    await release.uninstall()
    assert await release.objects() == set()
    assert await finalizers(scene) == []
    await asyncio.sleep(2)
    assert await engines(scene) == serving
    crd = await release.cluster.client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceservices.mtpilot.dev")
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

    await release.install("cleanup.stopServing=true")

    async def held() -> bool:
        return await finalizers(scene) == [FINALIZER]

    await eventually(held, seconds=30)
    assert await engines(scene) == serving

    await release.uninstall()
    assert await scene.get("inferenceservices", "chat") is None
    assert await release.objects() == set()

    async def ended() -> bool:
        return not await engines(scene)

    await eventually(ended, seconds=60)


async def test_every_object_of_every_scenario_is_accepted(local_cluster: LocalCluster, release: Release) -> None:
    """Without the kinds of the Prometheus Operator, which this cluster does not have."""
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        options = ("--set=monitoring.podMonitors.enabled=false,monitoring.serviceMonitor.enabled=false,monitoring.rules.enabled=false",)
        settings = [f"--values={values}", *options, "--set=serviceAccount.create=true"]
        if values.name.startswith("namespaced"):
            settings.append(f"--set=watchNamespaces={{{release.serves},default}}")
        text = await release.helm("install", "try", str(CHART), "--dry-run=server", "--take-ownership", "--output=json", *settings)
        assert json.loads(text[text.index("{") :])["info"]["status"] == "pending-install"
