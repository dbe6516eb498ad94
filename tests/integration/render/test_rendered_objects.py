"""What is rendered, in front of a real API server and its controllers: accepted strictly, quiet when repeated, a way back."""

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from e2e.clusters.kube import APPLY
from e2e.clusters.local import LocalCluster
from mtpilot.api.inference_service import Mode
from mtpilot.model.names import FIELD_MANAGER, LABEL_TEMPLATE_DIGEST
from mtpilot.model.plan import EnsureSecret
from mtpilot.model.slots import SlotKind
from mtpilot.model.snapshot import HardwareView, Manifest
from mtpilot.render.children import render_children
from mtpilot.render.slot import render_slot, slot_from_template
from tests.unit.render.samples import CHAT, MODES, SAMPLES, Sample


async def apply(cluster: LocalCluster, manifest: Manifest, **params: str) -> Manifest:
    path = await cluster.client.path_of(manifest)
    return await cluster.client.patch(
        path, manifest, content_type=APPLY, fieldManager=FIELD_MANAGER, force="true", fieldValidation="Strict", **params
    )


def everything(sample: Sample, namespace: str) -> Iterator[Manifest]:
    service = replace(sample.service, namespace=namespace)
    for child in render_children(service, sample.hardware):
        yield child.manifest if isinstance(child, EnsureSecret) else child
    for mode in MODES:
        yield render_slot(service, sample.hardware, 0, mode)


def nowhere(hardware: HardwareView) -> HardwareView:
    """The class on nodes that do not exist, so that no pod starts."""
    return replace(hardware, spec=hardware.spec.model_copy(update={"node_selector": {"nodes": "none"}}))


async def check_taken_strictly(cluster: LocalCluster, sample: Sample) -> None:
    """Every object of a sample is accepted without an unknown or repeated field, and keeps its digest."""
    for manifest in everything(sample, "default"):
        taken = await apply(cluster, manifest, dryRun="All")
        assert taken["metadata"]["annotations"].items() >= manifest["metadata"]["annotations"].items()


ON_ONE_NODE = [sample for sample in SAMPLES if sample.hardware.spec.nodes_per_replica == 1]  # the others: ../leader_worker_set


@pytest.mark.parametrize("sample", ON_ONE_NODE, ids=lambda sample: sample.name)
async def test_the_api_server_takes_every_object_strictly(local_cluster: LocalCluster, sample: Sample) -> None:
    await check_taken_strictly(local_cluster, sample)


async def test_a_slot_goes_over_and_back_without_a_third_template(local_cluster: LocalCluster, namespace: str) -> None:
    service, hardware = replace(CHAT.service, namespace=namespace), nowhere(CHAT.hardware)

    def slot(mode: Mode, template: dict[str, Any] | None = None) -> Manifest:
        kind = SlotKind.DEPLOYMENT
        made = render_slot(service, hardware, 0, mode) if template is None else slot_from_template(service, kind, 0, mode, template)
        return deepcopy(made | {"metadata": {name: part for name, part in made["metadata"].items() if name != "ownerReferences"}})

    async def replica_sets(count: int) -> dict[str, Manifest]:
        async with asyncio.timeout(20):
            while True:
                found = (await local_cluster.client.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets"))["items"]
                if len(found) >= count:
                    return {item["spec"]["template"]["metadata"]["labels"][LABEL_TEMPLATE_DIGEST]: item for item in found}
                await asyncio.sleep(0.1)

    def digest(deployment: Manifest) -> str:
        found: str = deployment["spec"]["template"]["metadata"]["labels"][LABEL_TEMPLATE_DIGEST]
        return found

    mtp = await apply(local_cluster, slot(Mode.MTP))
    await replica_sets(1)
    assert (await apply(local_cluster, slot(Mode.MTP)))["metadata"]["generation"] == mtp["metadata"]["generation"]
    await apply(local_cluster, slot(Mode.BATCH))
    kept = await replica_sets(2)
    assert set(kept) == {digest(slot(mode)) for mode in MODES}

    back = await apply(local_cluster, slot(Mode.MTP, kept[digest(mtp)]["spec"]["template"]))
    assert digest(back) == digest(mtp)
    assert back["spec"]["template"] == mtp["spec"]["template"]
    fresh = await apply(local_cluster, slot(Mode.MTP))
    assert fresh["spec"] == back["spec"]
    path = await local_cluster.client.path_of(mtp)
    async with asyncio.timeout(20):
        while (await local_cluster.client.get(path))["status"].get("observedGeneration") != fresh["metadata"]["generation"]:
            await asyncio.sleep(0.1)
    assert set(await replica_sets(2)) == set(kept)
