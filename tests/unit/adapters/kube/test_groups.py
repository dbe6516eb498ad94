"""LeaderWorkerSets as an API server gives them: slots, kept templates, and whose pods are whose."""

from typing import Any

from mtpilot.adapters.kube.gather import _pods, _slots_and_children, service_from_object
from mtpilot.adapters.kube.slots import slot_from_object
from mtpilot.api.inference_service import Mode
from mtpilot.model.slots import Pod, Slot, SlotKind
from mtpilot.model.snapshot import Manifest

from .live import LABELS, TEMPLATE_LABELS, inference_service, managed, merged, owner, pod

SET_UID = "lws-0"


def template(digest: str = "0123456789ab", mode: str = "mtp") -> dict[str, Any]:
    labels = {**TEMPLATE_LABELS, "mtpilot.dev/template-digest": digest, "mtpilot.dev/mode": mode}
    worker = {**labels, "mtpilot.dev/component": "engine-worker"}
    return {
        "size": 2,
        "leaderTemplate": {"metadata": {"labels": labels}, "spec": {}},
        "workerTemplate": {"metadata": {"labels": worker}, "spec": {}},
    }


def leader_worker_set(**changes: Any) -> Manifest:
    made: Manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "chat-r0",
            "namespace": "team-a",
            "uid": SET_UID,
            "creationTimestamp": "2026-12-01T12:00:00Z",
            "labels": dict(LABELS),
            "annotations": {"mtpilot.dev/digest": "feedfacecafe", "mtpilot.dev/rollout-state": '{"desiredMode":"batch"}'},
            "ownerReferences": [owner()],
        },
        "spec": {"replicas": 1, "leaderWorkerTemplate": template()},
    }
    return merged(made, changes)


def revision(number: int, digest: str, mode: str, owner_uid: str = SET_UID) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": f"chat-r0-{number}", "ownerReferences": [owner(owner_uid, "LeaderWorkerSet", "chat-r0")]},
        "revision": number,
        "data": {"spec": {"leaderWorkerTemplate": {"$patch": "replace", **template(digest, mode)}}},
    }


def stateful_set(uid: str, owner_uid: str, kind: str) -> Manifest:
    return {"kind": "StatefulSet", "metadata": {"name": uid, "uid": uid, "ownerReferences": [owner(owner_uid, kind, "x")]}}


def read(*kept: Manifest, **changes: Any) -> Slot:
    found = slot_from_object(leader_worker_set(**changes), kept, service="chat")
    assert found is not None
    return found


def test_a_group_is_a_slot() -> None:
    found = read()
    assert (found.kind, found.name, found.index, found.uid) == (SlotKind.LEADER_WORKER_SET, "chat-r0", 0, SET_UID)
    assert (found.mode, found.digest, found.replicas) == (Mode.MTP, "0123456789ab", 1)
    assert found.state is not None
    assert found.state.desired_mode is Mode.BATCH
    assert not found.drifted


def test_older_templates_come_from_controller_revisions_without_strangers() -> None:
    found = read(revision(1, "aaaaaaaaaaaa", "mtp"), revision(2, "bbbbbbbbbbbb", "batch"), revision(3, "cccccccccccc", "mtp", "other"))
    assert [(kept.digest, kept.mode) for kept in found.revisions] == [("bbbbbbbbbbbb", Mode.BATCH), ("aaaaaaaaaaaa", Mode.MTP)]
    assert set(found.revisions[0].template) == {"size", "leaderTemplate", "workerTemplate"}


def test_a_size_or_a_template_taken_by_somebody_else_is_drift() -> None:
    container: Manifest = {"f:spec": {"f:containers": {'k:{"name":"engine"}': {"f:image": {}}}}}
    taken_fields: tuple[Manifest, ...] = ({"f:size": {}}, {"f:leaderTemplate": container}, {"f:workerTemplate": container})
    for fields in taken_fields:
        taken = managed("kubectl-edit", {"f:spec": {"f:leaderWorkerTemplate": fields}})
        assert read(metadata={"managedFields": [taken]}).drifted
    assert not read(metadata={"managedFields": [managed("lws", {"f:spec": {"f:networkConfig": {}}})]}).drifted


def pods(**worker_status: Any) -> tuple[Pod, ...]:
    """A leader and its worker, with a stranger that only looks like a worker."""
    service = service_from_object(inference_service())
    slots, _ = _slots_and_children([leader_worker_set()], [], service)
    sets = [stateful_set("sts-leader", SET_UID, "LeaderWorkerSet"), stateful_set("sts-workers", "leader", "Pod")]
    labels = {**TEMPLATE_LABELS, "mtpilot.dev/component": "engine-worker"}
    leader = pod(metadata={"name": "chat-r0-0", "uid": "leader", "ownerReferences": [owner("sts-leader", "StatefulSet", "chat-r0")]})
    worker = {"name": "chat-r0-0-1", "uid": "worker", "labels": labels}
    mine = pod(metadata={**worker, "ownerReferences": [owner("sts-workers", "StatefulSet", "chat-r0-0")]}, status=worker_status)
    stranger = pod(metadata={**worker, "name": "stranger", "ownerReferences": []}, status=waiting("InvalidImageName", "not ours"))
    return _pods([stranger, mine, leader], sets, slots)


def waiting(reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "engine", "ready": False, "restartCount": 0, "state": state}]}


def test_only_the_leader_is_a_pod_of_the_slot() -> None:
    (found,) = pods()
    assert (found.name, found.ready, found.waiting_reason) == ("chat-r0-0", True, None)


def test_what_keeps_a_worker_from_starting_is_told_by_its_leader() -> None:
    (found,) = pods(**waiting("ErrImagePull", "no such image"))
    assert (found.waiting_reason, found.waiting_message) == ("ErrImagePull", "chat-r0-0-1: no such image")
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    (found,) = pods(conditions=[unplaced])
    assert found.unschedulable == "chat-r0-0-1: 0/3 nodes"
