"""Replicas over two nodes each, with the real LeaderWorkerSet controller: made, flipped under load, rolled back, deleted."""

from __future__ import annotations

import pytest

from e2e.clusters.local import LocalCluster
from mtpilot.model import names
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene
from tests.integration.leader_worker_set.two_nodes import TWO_NODES, two_node_service
from tests.integration.render.test_rendered_objects import check_taken_strictly
from tests.integration.scenarios.support import changed_environment, flips, labels, under_load, until_condition, until_mix
from tests.integration.support import eventually
from tests.unit.render.samples import SAMPLES, Sample

pytestmark = pytest.mark.slow


async def pods_of(scene: Scene, component: str) -> dict[str, Manifest]:
    found = await scene.all("pods", f"{names.LABEL_SERVICE}=chat,{names.LABEL_COMPONENT}={component}")
    return {pod["metadata"]["name"]: pod for pod in found}


def engine(pod: Manifest) -> Manifest:
    container: Manifest = next(found for found in pod["spec"]["containers"] if found["name"] == names.ENGINE_CONTAINER)
    return container


def variable(pod: Manifest, name: str) -> str:
    return str(next(entry["value"] for entry in engine(pod)["env"] if entry["name"] == name))


async def served_templates(scene: Scene) -> set[str]:
    return {labels(pod)[names.LABEL_TEMPLATE_DIGEST] for pod in (await pods_of(scene, names.COMPONENT_ENGINE)).values()}


async def check_groups(scene: Scene) -> None:
    """A leader that serves and a worker that nobody calls, of each slot."""
    leaders, workers = await pods_of(scene, names.COMPONENT_ENGINE), await pods_of(scene, names.COMPONENT_WORKER)
    assert set(leaders) == {"chat-r0-0", "chat-r1-0"}
    assert set(workers) == {"chat-r0-0-1", "chat-r1-0-1"}
    for pod, rank in ((leaders["chat-r0-0"], "0"), (workers["chat-r0-0-1"], "1")):
        assert variable(pod, "LWS_WORKER_INDEX") == rank
        assert variable(pod, "LWS_LEADER_ADDRESS") == f"chat-r0-0.chat-r0.{scene.namespace}"
        assert engine(pod)["resources"]["requests"] == {"nvidia.com/gpu": "2"}
    assert await scene.get("deployments", "chat-r0") is None


async def test_a_service_of_groups_lives_as_one_of_single_nodes(leader_worker_set: LocalCluster, scene: Scene, operator: Operator) -> None:
    await leader_worker_set.apply([TWO_NODES])
    service = two_node_service()
    await scene.apply(service)
    await scene.until_ready(seconds=90)
    await check_groups(scene)
    async with under_load(scene) as busy:
        await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
        assert flips(await until_mix(scene, mtp=1, batch=1, seconds=90)) == [("mtp", "batch", "Completed")]
        good = await served_templates(scene)

        # A template that never gets ready goes back to one that the spec renders no more.
        await scene.patch("chat", {"engine": {"env": changed_environment(service, SGLANG_SIM_NEVER_READY="mtp,batch")}})
        condition = await until_condition(scene, "Degraded", "True", seconds=90)
        assert condition["reason"] == "RolledBack"
        await until_all_serve(scene, good)
    assert busy.pods.serving_least == 1
    assert busy.pods.gpus_peak <= 8

    await scene.delete("chat")
    await scene.until_gone("inferenceservices", "chat")
    assert await scene.all("leaderworkersets") == []


SEVERAL_NODES = [sample for sample in SAMPLES if sample.hardware.spec.nodes_per_replica > 1]


@pytest.mark.parametrize("sample", SEVERAL_NODES, ids=lambda sample: sample.name)
async def test_the_webhooks_take_every_object_strictly(leader_worker_set: LocalCluster, sample: Sample) -> None:
    await check_taken_strictly(leader_worker_set, sample)


async def until_all_serve(scene: Scene, templates: set[str]) -> None:
    async def there() -> bool:
        phases = [slot["phase"] for slot in (await scene.status())["slots"]]
        return phases == ["Serving", "Serving"] and await served_templates(scene) == templates

    await eventually(there, seconds=90, every_seconds=0.3)
