"""Slots from Deployments: mode, state, older templates, and who changed what."""

from typing import Any

import pytest

from mtpilot.adapters.kube.slots import slot_from_object
from mtpilot.api.inference_service import Mode
from mtpilot.model.slots import RolloutState, Slot

from .live import condition, deployment, engine_fields, managed, replica_set


def read(*replica_sets: dict[str, Any], **changes: Any) -> Slot:
    found = slot_from_object(deployment(**changes), replica_sets, service="chat")
    assert found is not None
    return found


def test_a_slot() -> None:
    found = read()
    assert (found.name, found.index, found.mode, found.digest) == ("chat-r0", 0, Mode.MTP, "0123456789ab")
    assert found.state == RolloutState(desired_mode=Mode.BATCH)
    assert found.object_digest == "feedfacecafe"
    assert not found.drifted


@pytest.mark.parametrize("name", ["chat-gateway", "chat-rx", "other-r0"])
def test_other_deployments_are_no_slots(name: str) -> None:
    assert slot_from_object(deployment(name), (), service="chat") is None


def test_the_gateway_of_a_service_named_like_a_slot_is_no_slot() -> None:
    gateway = deployment("chat-r0", metadata={"labels": {"mtpilot.dev/component": "gateway"}})
    assert slot_from_object(gateway, (), service="chat") is None


def test_why_no_pod_can_be_made_without_the_name_that_each_try_has_anew() -> None:
    def failure(status: str, **more: str) -> Slot:
        return read(status={"conditions": [condition("ReplicaFailure", status, "2026-12-01T12:00:00Z", **more)]})

    words = 'pods "chat-r0-6d5b8c7f9-{}" is forbidden: exceeded quota: gpus, limited: requests.nvidia.com/gpu=4'
    told = {failure("True", message=words.format(suffix)).refused for suffix in ("x2x4z", "9k8jq")}
    assert told == {"pods is forbidden: exceeded quota: gpus, limited: requests.nvidia.com/gpu=4"}
    assert failure("True", reason="FailedCreate").refused == "FailedCreate"
    assert failure("False", message=words).refused is None
    assert read().refused is None


def test_unreadable_state_reads_as_none() -> None:
    assert read(metadata={"annotations": {"mtpilot.dev/rollout-state": "{"}}).state is None


def test_a_template_that_lost_our_labels_is_drifted_and_keeps_the_decided_mode() -> None:
    found = read(spec={"template": {"metadata": {"labels": None}}})
    assert found.drifted
    assert found.digest == ""
    assert found.mode is Mode.BATCH


def test_revisions_are_newest_first_without_the_controllers_label_and_without_strangers() -> None:
    found = read(
        replica_set(1, "aaaaaaaaaaaa"), replica_set(10, "bbbbbbbbbbbb", "batch"), replica_set(3, "cccccccccccc", owner_uid="other")
    )
    assert [(revision.digest, revision.mode) for revision in found.revisions] == [
        ("bbbbbbbbbbbb", Mode.BATCH),
        ("aaaaaaaaaaaa", Mode.MTP),
    ]
    metadata = found.revisions[0].template["metadata"]
    assert "pod-template-hash" not in metadata["labels"]
    assert "creationTimestamp" not in metadata


@pytest.mark.parametrize("field", ["image", "args"])
def test_a_field_taken_by_somebody_else_is_drift(field: str) -> None:
    kept = {"image": "args", "args": "image"}[field]
    entries = [managed("mtpilot", engine_fields(kept)), managed("kubectl-edit", engine_fields(field))]
    assert read(metadata={"managedFields": entries}).drifted


def test_scaling_a_slot_is_drift() -> None:
    entries = [managed("mtpilot", engine_fields("image")), managed("kubectl", {"f:spec": {"f:replicas": {}}})]
    assert read(metadata={"managedFields": entries}).drifted


@pytest.mark.parametrize(
    "entry",
    [
        managed(
            "kubectl-rollout", {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/restartedAt": {}}}}}}
        ),
        managed("kube-controller-manager", {"f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}}),
        managed("somebody", engine_fields("image")),  # the same value: shared, not taken
        managed("mtpilot-rollout", {"f:metadata": {"f:annotations": {"f:mtpilot.dev/rollout-state": {}}}}),
        managed("hpa", {"f:spec": {"f:replicas": {}}}, "status"),
    ],
    ids=lambda entry: entry["manager"],
)
def test_what_applying_again_would_not_take_back_is_no_drift(entry: dict[str, Any]) -> None:
    assert not read(metadata={"managedFields": [managed("mtpilot", engine_fields("image", "args")), entry]}).drifted
