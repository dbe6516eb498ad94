"""The CRDs as served: scale, columns, short names, selectable fields, and the one stored default."""

import copy

import pytest

from e2e.clusters.kube import ApiError
from mtpilot.api.types import API_VERSION
from tests.sample_files import full_documents, samples

from .conftest import Server

pytestmark = pytest.mark.integration

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def service_path(server: Server, name: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{server.namespace}/inferenceservices/{name}"


@pytest.fixture
async def service(server: Server):
    """The minimal service, stored; deleted afterwards."""
    document = copy.deepcopy(next(s.document for s in samples("accept") if s.kind == "InferenceService" and s.name == "minimal"))
    document["metadata"]["name"] = "minimal"
    yield await server.client.apply(document, namespace=server.namespace)
    await server.client.delete(service_path(server, "minimal"))


async def test_only_replicas_is_filled_in(server: Server, service):
    applied = next(s.document for s in samples("accept") if s.kind == "InferenceService" and s.name == "minimal")
    assert service["spec"] == applied["spec"] | {"replicas": 1}


async def test_scale_changes_the_spec_and_reports_the_status(server: Server, service):
    path = service_path(server, "minimal")
    await server.client.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    status = {"replicas": 2, "selector": "mtpilot.dev/service=minimal"}
    await server.client.patch(f"{path}/status", {"status": status})
    scale = await server.client.get(f"{path}/scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == status


async def test_scale_is_held_to_the_rules(server: Server, service):
    path = service_path(server, "minimal")
    await server.client.patch(path, {"spec": {"replicas": 4, "policy": {"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}}}})
    with pytest.raises(ApiError, match=r"policy\.pinned: mtp \+ batch must equal replicas"):
        await server.client.patch(f"{path}/scale", {"spec": {"replicas": 3}})


async def test_a_status_written_with_the_spec_is_dropped(server: Server):
    stored = await server.client.get(service_path(server, "stored"))
    assert "status" not in stored


async def test_services_are_selected_by_their_class(server: Server, service):
    found = await server.client.get(
        f"/apis/{API_VERSION}/inferenceservices", fieldSelector=f"spec.hardwareClass={service['spec']['hardwareClass']}"
    )
    assert "minimal" in [item["metadata"]["name"] for item in found["items"]]
    none = await server.client.get(f"/apis/{API_VERSION}/inferenceservices", fieldSelector="spec.hardwareClass=nothing")
    assert none["items"] == []


async def test_get_shows_the_summary(server: Server, service):
    path = service_path(server, "minimal")
    await server.client.patch(f"{path}/status", {"status": full_documents("InferenceService")[0]["status"]})
    async with server.client.session.get(server.client.config.server + path, headers={"Accept": TABLE}) as answer:
        table = await answer.json()
    shown = {column["name"]: cell for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)}
    assert [shown[name] for name in ("Mix", "Recommended", "Ready", "Load", "Reason")] == [
        "3 mtp / 1 batch",
        "2 mtp / 2 batch",
        "4/4",
        "4310 tok/s",
        "DemandAboveCapacity",
    ]
