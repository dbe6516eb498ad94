"""The object of one replica slot: a Deployment, or a LeaderWorkerSet where the hardware class spreads a replica over nodes.

One object per replica makes a flip explicit: its template is the slot's mode, the old pods free their GPUs before the new ones
ask for them, and Kubernetes heals the slot while the operator is away. Older templates stay in its ReplicaSets or
ControllerRevisions, so a rollback needs nothing that is remembered elsewhere.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.names import COMPONENT_ENGINE, LABEL_MODE, LABEL_SERVICE, LABEL_SLOT, slot_name
from mtpilot.model.slots import SlotKind
from mtpilot.model.snapshot import HardwareView, Manifest, Service

from .digest import pod_template_digest, with_digest
from .engine import pod_template
from .leader_worker_set import LEADER, WORKER, group_digest, group_spec, group_template
from .owner import owned_object
from .timing import ready_deadline_seconds

REVISION_HISTORY_LIMIT = 5
_HASH_LABEL = "pod-template-hash"  # the Deployment controller's own


def slot_kind(hardware: HardwareClassSpec) -> SlotKind:
    """What holds a slot of this class."""
    return SlotKind.DEPLOYMENT if hardware.nodes_per_replica == 1 else SlotKind.LEADER_WORKER_SET


def render_slot(service: Service, hardware: HardwareView, index: int, mode: Mode) -> Manifest:
    """The object of slot `index` with the present template of a mode.

    Raises:
        InvalidArguments: the spec cannot become a working pod; the message names the field.
    """
    kind = slot_kind(hardware.spec)
    make = pod_template if kind is SlotKind.DEPLOYMENT else group_template
    return _slot(service, kind, index, mode, make(service.name, service.spec, hardware.spec, mode, slot=slot_name(service.name, index)))


def template_digest(service: Service, hardware: HardwareView, mode: Mode) -> str:
    """Digest of the present template of a mode: the value of LABEL_TEMPLATE_DIGEST, the same for every slot.

    Raises:
        InvalidArguments: as render_slot.
    """
    name = slot_name(service.name, 0)
    if slot_kind(hardware.spec) is SlotKind.DEPLOYMENT:
        return pod_template_digest(pod_template(service.name, service.spec, hardware.spec, mode, slot=name))
    return group_digest(group_template(service.name, service.spec, hardware.spec, mode, slot=name))


def slot_from_template(service: Service, kind: SlotKind, index: int, mode: Mode, template: Mapping[str, Any]) -> Manifest:
    """The slot's object around an older template, as read from the cluster: what a rollback applies.

    The template keeps its digest label, so it is known as what it was; only the controller's own hash label is taken off.
    """
    plain: Manifest = _without_nulls(deepcopy(dict(template)))
    for pod in (plain,) if kind is SlotKind.DEPLOYMENT else (plain[LEADER], plain[WORKER]):
        labels = pod["metadata"]["labels"]
        labels.pop(_HASH_LABEL, None)
        labels[LABEL_SLOT] = slot_name(service.name, index)
    return _slot(service, kind, index, mode, plain)


def _slot(service: Service, kind: SlotKind, index: int, mode: Mode, template: Manifest) -> Manifest:
    name = slot_name(service.name, index)
    spec = _deployment_spec(service.name, service.spec, name, template) if kind is SlotKind.DEPLOYMENT else group_spec(template)
    return with_digest(
        owned_object(
            service,
            api_version=kind.api_version,
            kind=kind.value,
            name=name,
            component=COMPONENT_ENGINE,
            labels={LABEL_SLOT: name, LABEL_MODE: mode.value},
            spec=spec,
        )
    )


def _deployment_spec(service: str, spec: InferenceServiceSpec, name: str, template: Manifest) -> dict[str, Any]:
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
