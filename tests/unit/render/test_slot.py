"""The slot's Deployment, and the way back to an older template."""

from copy import deepcopy
from dataclasses import replace

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import ANNOTATION_DIGEST, LABEL_MODE, LABEL_SERVICE, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.model.slots import SlotKind
from mtpilot.render.digest import object_digest
from mtpilot.render.slot import render_slot, slot_from_template, template_digest

from .samples import CHAT, MODES, UID, service, small_hardware, small_spec

SERVICE = CHAT.service
HARDWARE = CHAT.hardware


@pytest.mark.parametrize("mode", MODES)
def test_one_replica_that_is_deleted_before_it_is_replaced(mode: Mode) -> None:
    deployment = render_slot(SERVICE, HARDWARE, 2, mode)
    spec = deployment["spec"]
    assert deployment["metadata"]["name"] == "chat-r2"
    assert deployment["metadata"]["namespace"] == "team-a"
    assert deployment["metadata"]["labels"][LABEL_MODE] == mode.value
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["progressDeadlineSeconds"] > 20 * 60
    assert spec["revisionHistoryLimit"] >= 2


def test_the_selector_is_in_the_template_and_does_not_depend_on_the_mode() -> None:
    selectors = [render_slot(SERVICE, HARDWARE, 0, mode)["spec"]["selector"] for mode in MODES]
    assert selectors == [{"matchLabels": {LABEL_SERVICE: "chat", LABEL_SLOT: "chat-r0"}}] * 2
    labels = render_slot(SERVICE, HARDWARE, 0, Mode.MTP)["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= selectors[0]["matchLabels"].items()


def test_it_is_owned_by_the_service() -> None:
    (owner,) = render_slot(SERVICE, HARDWARE, 0, Mode.MTP)["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "mtpilot.dev/v1alpha1",
        "kind": "InferenceService",
        "name": "chat",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_digests_of_object_and_template() -> None:
    deployment = render_slot(SERVICE, HARDWARE, 1, Mode.BATCH)
    assert deployment["metadata"]["annotations"][ANNOTATION_DIGEST] == object_digest(deployment)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels[LABEL_TEMPLATE_DIGEST] == template_digest(SERVICE, HARDWARE, Mode.BATCH)


def test_free_gpus_and_status_do_not_change_what_is_rendered() -> None:
    busy = replace(HARDWARE, gpus_free=8, nodes=7)
    later = replace(SERVICE, generation=9)
    assert render_slot(later, busy, 0, Mode.MTP) == render_slot(SERVICE, HARDWARE, 0, Mode.MTP)


def test_scaling_does_not_restart_a_slot() -> None:
    before, after = (service(small_spec(replicas=count)) for count in (2, 5))
    assert render_slot(before, small_hardware(), 0, Mode.MTP) == render_slot(after, small_hardware(), 0, Mode.MTP)


def test_a_replicasets_template_becomes_the_same_deployment_again() -> None:
    rendered = render_slot(SERVICE, HARDWARE, 0, Mode.MTP)
    stored = deepcopy(rendered["spec"]["template"])
    stored["metadata"]["labels"]["pod-template-hash"] = "5d4f"
    stored["metadata"]["creationTimestamp"] = None
    assert slot_from_template(SERVICE, SlotKind.DEPLOYMENT, 0, Mode.MTP, stored) == rendered
    assert "pod-template-hash" in stored["metadata"]["labels"]


def test_a_rollback_keeps_the_digest_although_the_api_server_filled_in_defaults() -> None:
    rendered = render_slot(SERVICE, HARDWARE, 0, Mode.MTP)
    stored = deepcopy(rendered["spec"]["template"])
    stored["spec"]["dnsPolicy"] = "ClusterFirst"
    back = slot_from_template(SERVICE, SlotKind.DEPLOYMENT, 0, Mode.MTP, stored)
    assert back["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert back["spec"]["template"]["metadata"]["labels"] == rendered["spec"]["template"]["metadata"]["labels"]
    assert back["metadata"]["annotations"] != rendered["metadata"]["annotations"]
