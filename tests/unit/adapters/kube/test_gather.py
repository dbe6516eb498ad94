"""The parts of a snapshot that are put together without a server."""

import pytest

from mtpilot.adapters.kube.gather import _pods, _slots_and_children, is_held, service_from_object
from mtpilot.ports import ClusterError

from .live import deployment, inference_service, owner, pod, replica_set


def test_the_service_as_read() -> None:
    found = service_from_object(inference_service(deletionTimestamp="2026-12-01T13:00:00Z"))
    assert (found.name, found.namespace, found.generation, found.spec.replicas) == ("chat", "team-a", 3, 2)
    assert found.status.observed_generation == 2
    assert found.deleting_since is not None


def test_a_spec_that_does_not_fit_names_the_field() -> None:
    obj = inference_service()
    del obj["spec"]["modes"]["batch"]
    with pytest.raises(ClusterError, match=r"modes\.batch"):
        service_from_object(obj)


def test_held() -> None:
    assert is_held(inference_service(finalizers=["a/b", "mtpilot.dev/finalizer"]))
    assert not is_held(inference_service(finalizers=["a/b"]))


def test_only_pods_of_our_slots_count() -> None:
    service = service_from_object(inference_service())
    sets = [replica_set(1, "0123456789ab")]
    slots, children = _slots_and_children([deployment(), deployment("chat-gateway")], sets, service)
    assert [slot.name for slot in slots] == ["chat-r0"]
    assert [child.name for child in children] == ["chat-gateway"]
    mine = pod()
    stray = pod(metadata={"name": "stray", "ownerReferences": []})
    foreign = pod(metadata={"name": "foreign", "ownerReferences": [owner("rs-of-somebody", "ReplicaSet", "x")]})
    leaving = pod(
        metadata={"name": "leaving", "ownerReferences": [owner("rs-gone", "ReplicaSet", "x")], "deletionTimestamp": "2026-12-01T13:00:00Z"}
    )
    assert [found.name for found in _pods([mine, stray, foreign, leaving], sets, slots)] == [mine["metadata"]["name"], "leaving"]
