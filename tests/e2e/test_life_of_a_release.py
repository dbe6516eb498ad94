"""The chart's life on real nodes: installed, tested, upgraded, uninstalled under load, and installed again; no request is lost."""

from __future__ import annotations

from typing import Any

import pytest

from mtpilot.model.names import FINALIZER
from tests.e2e.conftest import KindScene, Tally, hardware
from tests.helm_release import HelmRelease
from tests.integration.scenarios.support import under_load
from tests.integration.support import eventually


async def engines(scene: KindScene) -> dict[str, Any]:
    pods = await scene.all("pods", "mtpilot.dev/component=engine")
    return {pod["metadata"]["uid"]: pod["metadata"].get("deletionTimestamp") for pod in pods}


async def finalizers(scene: KindScene) -> list[str]:
    found = await scene.get("inferenceservices", "chat")
    assert found is not None
    return list(found["metadata"].get("finalizers") or ())


@pytest.mark.timeout(900)
async def test_install_test_upgrade_uninstall_reinstall(
    release: HelmRelease, system_namespace: str, scene: KindScene, tally: Tally
) -> None:
    notes = await release.install(timeout_seconds=240)
    assert "helm test mtpilot" in notes
    assert "Phase:          Succeeded" in await release.helm("test", "mtpilot", "--timeout=120s")

    await scene.apply(hardware(scene.cluster), scene.service())
    await scene.until_ready(seconds=120)
    await scene.expose()
    serving = await engines(scene)
    assert len(serving) == 2

    async def gone() -> bool:
        return await release.objects() == set()

    async with under_load(scene, clients=4, urls=scene.urls) as busy:
        await release.install("operator.logLevel=DEBUG", timeout_seconds=180)
        await release.uninstall()
        await eventually(gone, seconds=60)
        assert await finalizers(scene) == []
        assert await engines(scene) == serving

        await release.install(timeout_seconds=180)

        async def held() -> bool:
            return await finalizers(scene) == [FINALIZER]

        await eventually(held, seconds=60)
    assert await engines(scene) == serving
    tally.add(busy.load.result)
