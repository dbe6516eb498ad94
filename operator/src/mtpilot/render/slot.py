"""The Deployment of one replica slot.

One Deployment per replica makes a flip explicit: its template is the slot's mode, Recreate frees the GPUs before the new pod
asks for them, and Kubernetes heals the slot while the operator is away. Older templates stay in its ReplicaSets, so a
rollback needs nothing that is remembered elsewhere.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.names import COMPONENT_ENGINE, LABEL_MODE, LABEL_SERVICE, LABEL_SLOT, slot_name
from mtpilot.model.snapshot import HardwareView, Manifest, Service

from .digest import pod_template_digest, with_digest
from .engine import pod_template
from .owner import owned_object
from .timing import ready_deadline_seconds

REVISION_HISTORY_LIMIT = 5
_HASH_LABEL = "pod-template-hash"  # the Deployment controller's own


def render_slot(service: Service, hardware: HardwareView, index: int, mode: Mode) -> Manifest:
    """The Deployment of slot `index` with the present template of a mode.

    Raises:
        InvalidArguments: the spec cannot become a working pod; the message names the field.
    """
    name = slot_name(service.name, index)
    return _deployment(service, index, mode, pod_template(service.name, service.spec, hardware.spec, mode, slot=name))


def template_digest(service: Service, hardware: HardwareView, mode: Mode) -> str:
    """Digest of the present template of a mode: the value of LABEL_TEMPLATE_DIGEST, the same for every slot.

    Raises:
        InvalidArguments: as render_slot.
    """
    template = pod_template(service.name, service.spec, hardware.spec, mode, slot=slot_name(service.name, 0))
    return pod_template_digest(template)


def slot_from_template(service: Service, index: int, mode: Mode, template: Mapping[str, Any]) -> Manifest:
    """The slot's Deployment around an older template, as read from a ReplicaSet: what a rollback applies.

    The template keeps its digest label, so it is known as what it was; only the controller's own hash label is taken off.
    """
    plain: Manifest = _without_nulls(deepcopy(dict(template)))
    labels = plain["metadata"]["labels"]
    labels.pop(_HASH_LABEL, None)
    labels[LABEL_SLOT] = slot_name(service.name, index)
    return _deployment(service, index, mode, plain)


def _deployment(service: Service, index: int, mode: Mode, template: Manifest) -> Manifest:
    name = slot_name(service.name, index)
    return with_digest(
        owned_object(
            service,
            api_version="apps/v1",
            kind="Deployment",
            name=name,
            component=COMPONENT_ENGINE,
            labels={LABEL_SLOT: name, LABEL_MODE: mode.value},
            spec=_spec(service.name, service.spec, name, template),
        )
    )


def _spec(service: str, spec: InferenceServiceSpec, name: str, template: Manifest) -> dict[str, Any]:
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        "progressDeadlineSeconds": ready_deadline_seconds(spec.rollout),
        "selector": {"matchLabels": {LABEL_SERVICE: service, LABEL_SLOT: name}},
        "template": template,
    }


def _without_nulls(value: Any) -> Any:
    """Drop nulls such as `creationTimestamp: null`, which an API server may answer and server-side apply would own."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value
