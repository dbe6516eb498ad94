"""The operator from end to end without load: up, steady, changed, restarted, gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp

from e2e.clusters.local.ports import free_ports
from mtpilot.model.names import FIELD_MANAGER, ROLLOUT_FIELD_MANAGER
from tests.integration.controller import audit
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene, inference_service
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
CHILD_RESOURCES = (
    "deployments",
    "pods",
    "services",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "poddisruptionbudgets",
)


def uids(objects: list[dict[str, Any]]) -> set[str]:
    return {found["metadata"]["uid"] for found in objects}


async def everything(scene: Scene) -> dict[str, set[str]]:
    return {resource: uids(await scene.all(resource)) for resource in CHILD_RESOURCES}


async def test_service_comes_up_and_is_then_left_alone(scene: Scene, operator: Operator) -> None:
    await scene.apply(inference_service())
    status = await scene.until_ready()
    service = await scene.get("inferenceservices", "chat")
    assert service is not None
    assert service["metadata"]["finalizers"] == ["mtpilot.dev/finalizer"]
    assert [slot["mode"] for slot in status["slots"]] == ["mtp", "mtp"]
    assert status["replicas"] == 2
    assert status["observedGeneration"] == service["metadata"]["generation"]
    assert not service["metadata"].get("annotations")
    assert "turn failed" not in operator.lines()

    await asyncio.sleep(6)  # metrics become available, conditions settle
    start = audit.size(scene.cluster.audit_log_path)
    await asyncio.sleep(10)
    assert audit.writes(scene.cluster.audit_log_path, since=start, namespace=scene.namespace) == []


async def test_pinned_mix_changes_slot_by_slot_and_back(scene: Scene, operator: Operator) -> None:
    await scene.apply(inference_service())
    await scene.until_ready()
    for mtp, batch in ((1, 1), (2, 0)):
        await scene.patch("chat", {"policy": {"pinned": {"mtp": mtp, "batch": batch}}})

        async def there(mtp: int = mtp, batch: int = batch) -> bool:
            status = await scene.status()
            modes = sorted(slot["mode"] for slot in status["slots"] if slot["phase"] == "Serving")
            return modes == sorted(["mtp"] * mtp + ["batch"] * batch) and status["mix"] == {"mtp": mtp, "batch": batch}

        await eventually(there, seconds=60)
    history = (await scene.status())["history"]
    assert [(entry["from"], entry["to"], entry["outcome"]) for entry in history] == [
        ("mtp", "batch", "Completed"),
        ("batch", "mtp", "Completed"),
    ]
    assert await scene.events("FlipCompleted")


async def test_restart_changes_nothing(scene: Scene, operators: Operators) -> None:
    async with operators() as first:
        await scene.apply(inference_service())
        await scene.until_ready()
        await asyncio.sleep(6)
        assert await first.stop() == 0
    pods = uids(await scene.all("pods"))
    start = audit.size(scene.cluster.audit_log_path)
    async with operators() as second:
        await eventually(lambda: _has_begun(second), seconds=30)
        await asyncio.sleep(6)
    assert audit.writes(scene.cluster.audit_log_path, since=start, namespace=scene.namespace) == []
    assert uids(await scene.all("pods")) == pods


async def _has_begun(operator: Operator) -> bool:
    return operator.lines().count("starting") == 2  # the log of both


async def test_deletion_leaves_nothing_behind(scene: Scene, operator: Operator) -> None:
    before = await everything(scene)
    await scene.apply(inference_service())
    await scene.until_ready()
    await scene.delete("chat")
    await scene.until_gone("inferenceservices", "chat")

    assert uids(await scene.all("pods", "mtpilot.dev/component=engine")) == set()

    async def nothing_left() -> bool:
        return await everything(scene) == before

    await eventually(nothing_left, seconds=40)


async def test_deletion_is_resumed_by_the_next_operator(scene: Scene, operators: Operators) -> None:
    async with operators() as first:
        await scene.apply(inference_service())
        await scene.until_ready()
        await first.kill()
        await scene.delete("chat")
        await asyncio.sleep(1)
        service = await scene.get("inferenceservices", "chat")
        assert service is not None
        assert service["metadata"]["finalizers"] == ["mtpilot.dev/finalizer"]
    async with operators() as second:

        async def retiring() -> bool:
            return any(slot["phase"] == "Retiring" for slot in (await scene.status()).get("slots") or ())

        await eventually(retiring, seconds=30)
        await second.kill()
    async with operators():
        await scene.until_gone("inferenceservices", "chat")
    assert await scene.get("deployments", "chat-r0") is None


async def test_foreign_objects_are_never_touched(scene: Scene, operator: Operator) -> None:
    labels = {"mtpilot.dev/service": "chat", "app": "mine"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause:3"}]}}
    await scene.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "chat-r0"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "mine"}}, "template": template},
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat"}, "spec": {"ports": [{"port": 1234}]}},
    )
    await scene.apply(inference_service(replicas=1))

    async def conflict() -> bool:
        condition = await scene.condition("chat", "Degraded")
        return condition.get("reason") == "NameConflict"

    await eventually(conflict, seconds=40)
    await asyncio.sleep(3)
    deployment, service = await scene.get("deployments", "chat-r0"), await scene.get("services", "chat")
    assert deployment is not None
    assert service is not None
    assert deployment["spec"]["replicas"] == 0
    assert "ownerReferences" not in deployment["metadata"]
    assert [port["port"] for port in service["spec"]["ports"]] == [1234]
    for found in (deployment, service):
        assert not {entry["manager"] for entry in found["metadata"]["managedFields"]} & {FIELD_MANAGER, ROLLOUT_FIELD_MANAGER}
    await scene.until_ready(replicas=1)
    assert [slot["name"] for slot in (await scene.status())["slots"]] == ["chat-r1"]


async def test_a_changed_slot_is_put_back(scene: Scene, operator: Operator) -> None:
    await scene.apply(inference_service(replicas=1))
    await scene.until_ready(replicas=1)
    before = await scene.get("deployments", "chat-r0")
    assert before is not None
    path = scene.path("deployments", "chat-r0")
    args = ["--model-path", "somewhere/else"]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "engine", "args": args}]}}}}
    await scene.cluster.client.patch(path, patch, content_type="application/strategic-merge-patch+json", fieldManager="kubectl-edit")

    async def put_back() -> bool:
        now = await scene.get("deployments", "chat-r0")
        return now is not None and now["spec"]["template"] == before["spec"]["template"]

    await eventually(put_back, seconds=30)
    await eventually(lambda: scene.events("DriftCorrected"), seconds=10)
    await scene.until_ready(replicas=1)
    start = audit.size(scene.cluster.audit_log_path)
    await asyncio.sleep(4)
    applied = audit.writes(scene.cluster.audit_log_path, since=start, namespace=scene.namespace)
    assert not [write for write in applied if "deployments" in write]


async def test_probe_and_metrics(scene: Scene, operators: Operators) -> None:
    liveness, metrics = free_ports(2)
    async with operators("--liveness", str(liveness), "--metrics-port", str(metrics)), aiohttp.ClientSession() as session:
        await scene.apply(inference_service(replicas=1))
        await scene.until_ready(replicas=1)
        async with session.get(f"http://127.0.0.1:{liveness}/healthz") as answer:
            assert answer.status == 200
            assert await answer.json() == {"loops": 1}
        async with session.get(f"http://127.0.0.1:{metrics}/metrics") as answer:
            text = await answer.text()
    label = f'namespace="{scene.namespace}",service="chat"'
    assert f'mtpilot_slots{{mode="mtp",{label.split(",")[0]},phase="Serving",service="chat"}} 1.0' in text
    assert f"mtpilot_reconcile_last_success_timestamp_seconds{{{label}}}" in text
    assert "mtpilot_build_info" in text


async def test_hardware_class_counts_nodes_and_gpus(scene: Scene, operator: Operator) -> None:
    await scene.apply(inference_service(replicas=1))
    await scene.until_ready(replicas=1)

    async def counted() -> bool:
        found = await scene.cluster.client.get("/apis/mtpilot.dev/v1alpha1/hardwareclasses/rtx-x4")
        status = found.get("status") or {}
        return status.get("nodes") == 2 and status["gpus"]["total"] == 96 and status["gpus"]["free"] <= 92

    await eventually(counted, seconds=30)


async def test_missing_rights_end_the_start_with_their_names(scene: Scene, operators: Operators) -> None:
    await scene.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
    kubeconfig = await scene.cluster.service_account_kubeconfig(scene.namespace, "nobody")
    async with operators() as operator:
        await operator.kill()
        operator.kubeconfig = kubeconfig
        await operator.start()
        assert operator.process is not None
        assert await asyncio.wait_for(operator.process.wait(), 60) == 1
        assert "may not" in operator.lines()
        assert "patch deployments.apps" in operator.lines()
