"""Owned objects other than slots, and those that only look like ours."""

from datetime import UTC, datetime

from mtpilot.adapters.kube.children import child_from_object, split_owned
from mtpilot.model.snapshot import Conflict, Manifest

from .live import deployment, managed, owner


def config_map(**metadata: object) -> Manifest:
    base = {"name": "chat-gateway", "uid": "u1", "annotations": {"mtpilot.dev/digest": "d1"}, "ownerReferences": [owner()]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": base | metadata}


def test_a_child_with_its_digest() -> None:
    found = child_from_object(config_map())
    assert (found.api_version, found.kind, found.name, found.uid, found.digest) == ("v1", "ConfigMap", "chat-gateway", "u1", "d1")
    assert (found.ready, found.desired, found.deleting) == (None, None, False)


def test_a_workload_tells_how_much_of_it_is_ready() -> None:
    found = child_from_object(deployment("chat-gateway", spec={"replicas": 2}, status={"readyReplicas": None}))
    assert (found.ready, found.desired) == (0, 2)


def test_a_workload_tells_when_a_pod_of_it_last_became_ready() -> None:
    times = {"Available": "2026-12-01T12:00:00Z", "Progressing": "2026-12-01T12:03:00Z"}
    conditions = [{"type": kind, "status": "True", "lastUpdateTime": at} for kind, at in times.items()]
    found = child_from_object(deployment("chat-gateway", status={"readyReplicas": 2, "conditions": conditions}))
    assert found.changed_at == datetime(2026, 12, 1, 12, 3, tzinfo=UTC)
    assert child_from_object(deployment("chat-gateway")).changed_at is None


def test_content_taken_over_by_somebody_else_withholds_the_digest() -> None:
    taken = config_map(managedFields=[managed("kubectl-edit", {"f:data": {"f:haproxy.cfg": {}}})])
    assert child_from_object(taken).digest is None
    shared = config_map(managedFields=[managed("mtpilot", {"f:data": {}}), managed("kubectl-edit", {"f:data": {}})])
    assert child_from_object(shared).digest == "d1"


def test_without_our_owner_reference_it_is_a_conflict() -> None:
    foreign = config_map(name="mine", ownerReferences=[owner("another-uid")])
    owned, conflicts = split_owned([config_map(), foreign], owner()["uid"])
    assert [found["metadata"]["name"] for found in owned] == ["chat-gateway"]
    assert conflicts == [Conflict(kind="ConfigMap", name="mine")]
