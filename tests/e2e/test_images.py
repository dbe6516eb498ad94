"""An image that cannot be pulled, in the middle of a flip: the real kubelet's words, and the way back."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import KindScene, Tally
from tests.helm_release import HelmRelease
from tests.integration.scenarios.support import rollout_state, slot_pods, under_load, until_mix
from tests.integration.support import eventually

_NO_REGISTRY = "localhost:1/sglang:typo"  # nothing listens there, on any node


@pytest.mark.timeout(600)
async def test_flip_to_an_image_that_cannot_be_pulled_rolls_back(installed: HelmRelease, scene: KindScene, tally: Tally) -> None:
    service = scene.service(rollout={"drainTimeout": "30s", "readyTimeout": "25s"})
    service["spec"]["policy"]["minDwell"] = "60s"
    await scene.apply(service)
    await scene.until_ready(seconds=120)
    await scene.expose()
    (untouched,) = await slot_pods(scene, "chat-r1")
    async with under_load(scene, urls=scene.urls) as busy:
        await scene.patch("chat", {"engine": {"image": _NO_REGISTRY}, "policy": {"pinned": {"mtp": 1, "batch": 1}}})

        async def said() -> bool:
            condition = await scene.condition("chat", "Degraded")
            return bool(condition["reason"] == "ImagePullFailed")

        await eventually(said, seconds=90)

        async def back() -> bool:
            lines = {line["name"]: line["phase"] for line in (await scene.status())["slots"]}
            states = [await rollout_state(scene, slot) for slot in lines]
            return any(state.get("failures") == 1 and not state.get("rollingBack") for state in states) and set(lines.values()) == {
                "Serving"
            }

        await eventually(back, seconds=120)
        assert (await scene.condition("chat", "Degraded"))["reason"] == "RolledBack"
        await scene.patch("chat", {"engine": {"image": scene.cluster.images.simulator}})
        await until_mix(scene, mtp=1, batch=1, seconds=120)
    tally.add(busy.load.result)
    assert busy.pods.gpus_peak == 8
    assert busy.pods.serving_least >= 1
    assert untouched["metadata"]["name"] in busy.pods.created["chat-r1"]
