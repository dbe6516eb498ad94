"""A chart whose CRDs know less is upgraded to this one, with objects in place that serve."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters.kube import ApiError
from tests.chart_rendering import CHART
from tests.e2e.conftest import KindScene, Tally, hardware
from tests.helm_release import HelmRelease
from tests.integration.scenarios.support import slot_pods, under_load

_CRD = "inferenceservices.mtpilot.dev"
_NEWER = "contention"  # a field of spec.gateway that the earlier version lacks


def earlier_chart(target: Path) -> Path:
    """This chart as version 0.0.1, its InferenceService without the newer field."""
    shutil.copytree(CHART, target)
    description = target / "Chart.yaml"
    description.write_text(description.read_text().replace("\nversion: ", "\nversion: 0.0.1 # was "))
    path = target / "files/crds" / f"{_CRD}.yaml"
    crd: dict[str, Any] = yaml.safe_load(path.read_text())
    for version in crd["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["gateway"]["properties"][_NEWER]
    path.write_text(yaml.safe_dump(crd, sort_keys=False))
    return target


async def knows_the_newer_field(scene: KindScene) -> bool:
    """Whether the API server takes the field; it is asked with a dry run that refuses unknown fields."""
    path = scene.path("inferenceservices", "chat")
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    try:
        await scene.cluster.client.patch(path, {"spec": {"gateway": {_NEWER: {}}}}, **query)
    except ApiError as error:
        if "unknown field" not in str(error):
            raise
        return False
    return True


@pytest.mark.timeout(600)
async def test_crds_are_upgraded_with_objects_in_place(installed: HelmRelease, scene: KindScene, tally: Tally, tmp_path: Path) -> None:
    await scene.apply(hardware(scene.cluster), scene.service())
    await scene.until_ready(seconds=120)
    await scene.expose()
    # An operator refuses CRDs that are older than itself, so the earlier release has none: replicas and gateways serve on.
    await installed.install("replicaCount=0", chart=earlier_chart(tmp_path / "chart"), timeout_seconds=180)
    before = await scene.get("inferenceservices", "chat")
    assert before is not None
    pods = [pod["metadata"]["uid"] for slot in ("chat-r0", "chat-r1") for pod in await slot_pods(scene, slot)]
    assert not await knows_the_newer_field(scene)

    async with under_load(scene, clients=3, urls=scene.urls) as busy:
        await installed.install(timeout_seconds=180)
        assert await knows_the_newer_field(scene)
        await scene.until_ready(seconds=60)
    tally.add(busy.load.result)
    after = await scene.get("inferenceservices", "chat")
    assert after is not None
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert [pod["metadata"]["uid"] for slot in ("chat-r0", "chat-r1") for pod in await slot_pods(scene, slot)] == pods
