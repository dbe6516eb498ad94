"""The flip on real nodes, in both directions, with the operator under the chart's own service account."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SYSTEM_NAMESPACE, KindScene, Tally
from tests.helm_release import HelmRelease
from tests.integration.scenarios.both_ways import GPUS, POLICY, drive_both_ways


@pytest.mark.timeout(600)
async def test_load_drives_the_mix_to_batch_and_back(installed: HelmRelease, scene: KindScene, tally: Tally) -> None:
    (pod,) = (
        await scene.cluster.client.get(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods", labelSelector="app.kubernetes.io/component=operator")
    )["items"]
    assert pod["spec"]["serviceAccountName"] == "mtpilot"
    await scene.apply(scene.service(policy=POLICY))
    await scene.until_ready(seconds=120)
    await scene.expose()
    moved = await drive_both_ways(scene, urls=scene.urls, seconds=150)
    tally.add(*moved.loads)
    assert moved.gpus_peak == GPUS
    assert moved.reasons[1] == "DemandFitsMtp"
