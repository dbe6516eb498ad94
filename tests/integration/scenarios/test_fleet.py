"""Several services, other people's objects, restarts, rest: what an operator must leave alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from e2e.clusters.local import LocalCluster
from mtpilot.model.names import FIELD_MANAGER, ROLLOUT_FIELD_MANAGER
from tests.integration.controller import audit
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Manifest, Scene, inference_service
from tests.integration.scenarios.looks import objects, simulated, versions
from tests.integration.scenarios.support import under_load, until_mix
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
SETTLE_SECONDS = 6.0


@pytest.fixture
async def neighbour(prepared_cluster: LocalCluster, namespace: str) -> AsyncIterator[Scene]:
    """A second namespace beside the test's own."""
    scene = Scene(prepared_cluster, await prepared_cluster.create_namespace(f"{namespace[:40]}-next"))
    yield scene
    await scene.clean()
    path = f"/api/v1/namespaces/{scene.namespace}"
    await prepared_cluster.client.delete(path)
    await prepared_cluster.client.delete(f"{path}/pods", {"gracePeriodSeconds": 0})


def of_service(found: dict[str, Manifest], service: str) -> dict[str, str]:
    """Versions of a service's objects, itself included."""
    return {
        name: version
        for name, version in versions(found).items()
        if name.split("/")[1] == service or name.split("/")[1].startswith(f"{service}-")
    }


async def test_services_do_not_touch_each_other(scene: Scene, neighbour: Scene, operators: Operators) -> None:
    async with operators("-n", neighbour.namespace):
        await scene.apply(inference_service("chat"), inference_service("other", replicas=1))
        await neighbour.apply(inference_service("chat", replicas=1))
        await scene.until_ready("chat")
        await scene.until_ready("other", replicas=1)
        await neighbour.until_ready("chat", replicas=1)
        await asyncio.sleep(SETTLE_SECONDS)
        other = of_service(await objects(scene.cluster, scene.namespace), "other")
        beyond = versions(await objects(scene.cluster, neighbour.namespace))
        assert len(other) >= 10
        assert len(beyond) >= 10

        await scene.patch("chat", {"policy": {"pinned": {"mtp": 1, "batch": 1}}})
        await until_mix(scene, mtp=1, batch=1)
        await scene.delete("chat")
        await scene.until_gone("inferenceservices", "chat")
        await asyncio.sleep(2)

        assert of_service(await objects(scene.cluster, scene.namespace), "other") == other
        assert versions(await objects(scene.cluster, neighbour.namespace)) == beyond


async def test_restart_under_load_changes_nothing(scene: Scene, operators: Operators) -> None:
    """Killed and started again while requests run: the children keep their versions, and only numbers in status may move."""
    async with operators() as first:
        await scene.apply(simulated(policy={"mode": "Auto"}))
        await scene.until_ready()
        async with under_load(scene, clients=3, output_tokens=300):
            await asyncio.sleep(SETTLE_SECONDS)
            await first.kill()
            service = "inferenceservices/chat"
            before = versions(await objects(scene.cluster, scene.namespace))
            start = audit.size(scene.cluster.audit_log_path)
            async with operators() as second:

                async def begun() -> bool:
                    return second.lines().count("starting") == 2

                await eventually(begun, seconds=30)
                await asyncio.sleep(SETTLE_SECONDS)
            after = versions(await objects(scene.cluster, scene.namespace))
    assert {name: item for name, item in after.items() if name != service} == {
        name: item for name, item in before.items() if name != service
    }
    written = audit.writes(scene.cluster.audit_log_path, since=start, namespace=scene.namespace)
    assert not [write for write in written if "inferenceservices/status" not in write]
    assert len(written) <= 2


def foreign_objects() -> tuple[Manifest, ...]:
    """Names that mtpilot needs, taken by somebody else; one even with our labels."""
    labels = {"mtpilot.dev/service": "chat", "app": "mine"}
    template = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "main", "image": "pause:3"}]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": {"app": "mine"}}, "template": template}
    return (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat-r0", "labels": labels}, "spec": deployment},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat"}, "spec": {"ports": [{"port": 1234}]}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "chat-gateway"}, "data": {"mine": "yes"}},
    )


FOREIGN = ("deployments/chat-r0", "services/chat", "configmaps/chat-gateway")


async def test_foreign_objects_outlive_the_service_untouched(scene: Scene, operator: Operator) -> None:
    await scene.apply(*foreign_objects())
    await asyncio.sleep(1)  # the Deployment's own controller writes its status
    before = await objects(scene.cluster, scene.namespace)
    await scene.apply(simulated(replicas=1))

    async def conflict() -> bool:
        condition = await scene.condition("chat", "Degraded")
        return condition.get("reason") == "NameConflict" and "not ours" in condition["message"]

    await eventually(conflict, seconds=40)

    async def engine_serves() -> bool:
        slots = (await scene.status())["slots"]
        return [(slot["name"], slot["phase"]) for slot in slots] == [("chat-r1", "Serving")]

    await eventually(engine_serves, seconds=40)
    await asyncio.sleep(3)
    await scene.delete("chat")
    await scene.until_gone("inferenceservices", "chat")

    async def only_theirs() -> bool:
        return set(await objects(scene.cluster, scene.namespace)) == set(before)

    await eventually(only_theirs, seconds=40, every_seconds=0.5)
    after = await objects(scene.cluster, scene.namespace)
    for name in FOREIGN:
        assert after[name] == before[name]
        managers = {entry["manager"] for entry in after[name]["managedFields"]}
        assert not managers & {FIELD_MANAGER, ROLLOUT_FIELD_MANAGER}
