"""A replica slot as the core sees it, from its object and the older templates that the cluster keeps of it."""

import re
from collections.abc import Sequence

import structlog

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import (
    ANNOTATION_DIGEST,
    ANNOTATION_ROLLOUT_STATE,
    COMPONENT_ENGINE,
    LABEL_COMPONENT,
    LABEL_TEMPLATE_DIGEST,
    slot_index,
)
from mtpilot.model.slots import RolloutState, Slot, SlotKind, TemplateRevision, decode_state
from mtpilot.model.snapshot import Manifest

from .fields import (
    WATCHED_GROUP_FIELDS,
    WATCHED_SLOT_FIELDS,
    annotations_of,
    condition,
    created_at,
    is_deleting,
    is_owned,
    labels_of,
    metadata_of,
    owned_by_others,
)
from .groups import group_revisions, leader_template, mode_of

_REVISION = "deployment.kubernetes.io/revision"
_HASH = "pod-template-hash"
_POD_NAME = re.compile(r'pods "[^"]*"')
_log = structlog.get_logger(__name__)


def slot_from_object(obj: Manifest, kept: Sequence[Manifest], *, service: str) -> Slot | None:
    """The slot, or None where the object is not one of the service's slots. `kept`: ReplicaSets and ControllerRevisions.

    A template that lost our labels reads as drifted, with an empty digest: whatever the core desires differs from it.
    """
    metadata, spec = metadata_of(obj), obj.get("spec") or {}
    index = slot_index(service, metadata["name"])
    if obj["kind"] not in set(SlotKind) or index is None or labels_of(obj).get(LABEL_COMPONENT) != COMPONENT_ENGINE:
        return None
    kind = SlotKind(obj["kind"])
    single = kind is SlotKind.DEPLOYMENT
    template_labels = labels_of((spec.get("template") if single else leader_template(spec)) or {})
    state = _state(obj)
    mode = mode_of(template_labels)
    digest = template_labels.get(LABEL_TEMPLATE_DIGEST, "")
    takers = owned_by_others(obj, WATCHED_SLOT_FIELDS if single else WATCHED_GROUP_FIELDS)
    return Slot(
        name=metadata["name"],
        index=index,
        uid=metadata["uid"],
        kind=kind,
        mode=mode or (state.desired_mode if state else Mode.MTP),
        digest=digest,
        replicas=int(spec.get("replicas", 1)),
        deleting=is_deleting(obj),
        drifted=bool(takers) or mode is None or not digest,
        object_digest=annotations_of(obj).get(ANNOTATION_DIGEST),
        created_at=created_at(obj),
        refused=_refused(obj),
        state=state,
        revisions=(_revisions if single else group_revisions)(kept, metadata["uid"]),
    )


def _state(obj: Manifest) -> RolloutState | None:
    text = annotations_of(obj).get(ANNOTATION_ROLLOUT_STATE)
    if text is None:
        return None
    try:
        return decode_state(text)
    except ValueError as error:
        _log.warning("rollout state ignored", slot=metadata_of(obj)["name"], error=str(error))
        return None


def _refused(obj: Manifest) -> str | None:
    """NB: each try is for a pod of another random name; without it the words stay the same."""
    found = condition(obj, "ReplicaFailure")
    if found.get("status") != "True":
        return None
    return _POD_NAME.sub("pods", found.get("message") or found.get("reason") or "its pod cannot be made")


def _revisions(replica_sets: Sequence[Manifest], uid: str) -> tuple[TemplateRevision, ...]:
    """Templates that the Deployment still keeps, newest first, without the Deployment controller's own label."""
    found: list[tuple[int, TemplateRevision]] = []
    for replica_set in replica_sets:
        template = (replica_set.get("spec") or {}).get("template") or {}
        labels = labels_of(template)
        mode, digest = mode_of(labels), labels.get(LABEL_TEMPLATE_DIGEST)
        if replica_set["kind"] != "ReplicaSet" or not is_owned(replica_set, uid) or mode is None or not digest:
            continue
        metadata = {key: value for key, value in metadata_of(template).items() if key != "creationTimestamp"}
        metadata["labels"] = {key: value for key, value in labels.items() if key != _HASH}
        number = annotations_of(replica_set).get(_REVISION, "0")
        revision = TemplateRevision(digest=digest, mode=mode, template={**template, "metadata": metadata})
        found.append((int(number) if number.isdecimal() else 0, revision))
    return tuple(revision for _, revision in sorted(found, key=lambda item: item[0], reverse=True))
