"""The API server with the CRDs of the repository, a namespace, and one stored object of each kind."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from e2e.clusters.kube import APPLY, KubeClient, Kubeconfig
from e2e.clusters.local import LocalCluster
from mtpilot.api.crds import KINDS
from mtpilot.api.types import API_VERSION
from tests.sample_files import full_documents

REPOSITORY = Path(__file__).parents[3]
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Server:
    """An open client, and the namespace that samples go to."""

    client: KubeClient
    namespace: str


@pytest.fixture(scope="module")
async def server(local_cluster: LocalCluster) -> AsyncIterator[Server]:
    """Of the module, not the session: an operator of a later test must not find the stored objects."""
    namespace = f"crd-samples-{next(_numbers)}"
    async with KubeClient(Kubeconfig.load(local_cluster.admin_kubeconfig)) as client:
        for path in sorted((REPOSITORY / "crds").glob("*.yaml")):
            await client.patch(
                f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{path.stem}",
                yaml.safe_load(path.read_text()),
                content_type=APPLY,
                fieldManager="samples",
                force="true",
            )
        await client.patch(
            f"/api/v1/namespaces/{namespace}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            content_type=APPLY,
            fieldManager="samples",
        )
        await _established(client)
        stored = [full_documents(kind.kind)[0] for kind in KINDS]
        for document in stored:
            document["metadata"]["name"] = "stored"
            await client.apply(document, namespace=namespace, field_manager="samples")
        yield Server(client, namespace)
        for document in stored:
            await client.delete(await client.path_of(document, namespace=namespace))
        await client.delete(f"/api/v1/namespaces/{namespace}")


async def _established(client: KubeClient) -> None:
    for kind in KINDS:
        for _ in range(100):
            found = await client.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.crd_name}")
            conditions = {c["type"]: c["status"] for c in found.get("status", {}).get("conditions", ())}
            # NB: NonStructuralSchema appears only where the server finds fault with the schema.
            if conditions == {"NamesAccepted": "True", "Established": "True"}:
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"{kind.crd_name}: {conditions}")
    # The resource is served a moment after the condition says so.
    for _ in range(100):
        served = {r["name"] for r in (await client.get(f"/apis/{API_VERSION}"))["resources"]}
        if {kind.plural for kind in KINDS} <= served:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"served: {served}")
