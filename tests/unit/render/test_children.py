"""The objects beside the slots: admin key, disruption budget, gateway."""

import pytest

from mtpilot.model.names import ANNOTATION_DIGEST, service_labels
from mtpilot.model.plan import EnsureSecret
from mtpilot.model.snapshot import Manifest
from mtpilot.render.children import render_children
from mtpilot.render.digest import object_digest
from mtpilot.render.disruption import render_disruption_budget
from mtpilot.render.secret import render_admin_secret

from .samples import CHAT, SAMPLES, UID, Sample

SERVICE = CHAT.service


def manifests(sample: Sample) -> list[Manifest]:
    children = render_children(sample.service, sample.hardware)
    return [child.manifest if isinstance(child, EnsureSecret) else child for child in children]


def test_the_admin_key_is_never_in_the_manifest() -> None:
    secret = render_admin_secret(SERVICE)
    assert secret.key == "admin-api-key"
    assert secret.manifest["metadata"]["name"] == "chat-admin"
    assert not {"data", "stringData"} & set(secret.manifest)


def test_evictions_take_one_engine_at_a_time_and_broken_ones_freely() -> None:
    spec = render_disruption_budget(SERVICE)["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    (component,) = spec["selector"]["matchExpressions"]
    assert spec["selector"]["matchLabels"] == {"mtpilot.dev/service": "chat"}
    assert component == {"key": "mtpilot.dev/component", "operator": "In", "values": ["engine", "engine-worker"]}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_child_is_owned_labelled_and_stamped(sample: Sample) -> None:
    for manifest in manifests(sample):
        metadata = manifest["metadata"]
        assert metadata["namespace"] == sample.service.namespace
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
        assert metadata["labels"].items() >= service_labels(sample.service.name, metadata["labels"]["mtpilot.dev/component"]).items()
        assert metadata["annotations"][ANNOTATION_DIGEST] == object_digest(manifest)


def test_the_secret_comes_before_what_needs_it() -> None:
    kinds = [manifest["kind"] for manifest in manifests(CHAT)]
    assert kinds[:2] == ["Secret", "PodDisruptionBudget"]
    assert "Deployment" in kinds[2:]


def test_names_are_unique_per_kind() -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests(CHAT)]
    assert len(names) == len(set(names))


def test_the_gateway_does_not_wait_for_the_hardware_class() -> None:
    without = render_children(SERVICE, None)
    assert len(without) == len(render_children(SERVICE, CHAT.hardware))
