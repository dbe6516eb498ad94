"""Owned objects other than slots, and foreign objects that stand on a name we need."""

from collections.abc import Iterable
from datetime import datetime

from mtpilot.model.names import ANNOTATION_DIGEST
from mtpilot.model.snapshot import Child, Conflict, Manifest

from .fields import annotations_of, is_deleting, is_owned, metadata_of, owned_by_others, read_time

# Listed by label and as metadata only: their content is ours to render, not to read. Secrets are fetched by name instead,
# so that the operator needs no right to list them.
CHILD_KINDS: tuple[tuple[str, str], ...] = (
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
)

_WATCHED: dict[str, tuple[tuple[str, ...], ...]] = {
    "ConfigMap": (("f:data",),),
    "PodDisruptionBudget": (("f:spec", "f:maxUnavailable"),),
    "Service": (("f:spec", "f:selector"),),
    "Role": (("f:rules",),),
    "RoleBinding": (("f:subjects",),),
    "Deployment": (("f:spec", "f:replicas"),),
}


def child_from_object(obj: Manifest) -> Child:
    """An owned object. Where somebody else took over what it is about, its digest is withheld, so that it is applied again."""
    metadata, kind = metadata_of(obj), obj["kind"]
    taken = owned_by_others(obj, _WATCHED.get(kind, ()))
    workload = kind == "Deployment"
    return Child(
        api_version=obj["apiVersion"],
        kind=kind,
        name=metadata["name"],
        uid=metadata["uid"],
        digest=None if taken else annotations_of(obj).get(ANNOTATION_DIGEST),
        deleting=is_deleting(obj),
        ready=int((obj.get("status") or {}).get("readyReplicas") or 0) if workload else None,
        desired=int((obj.get("spec") or {}).get("replicas") or 0) if workload else None,
        changed_at=_changed_at(obj) if workload else None,
    )


def _changed_at(deployment: Manifest) -> datetime | None:
    """The newest word of its conditions: Progressing is updated with every pod that gets ready in a rollout, Available after a loss."""
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    return max((at for condition in conditions if (at := read_time(condition.get("lastUpdateTime"))) is not None), default=None)


def split_owned(objects: Iterable[Manifest], uid: str) -> tuple[list[Manifest], list[Conflict]]:
    """Objects with our owner reference, and conflicts for those that only look like ours."""
    owned: list[Manifest] = []
    conflicts: list[Conflict] = []
    for obj in objects:
        if is_owned(obj, uid):
            owned.append(obj)
        else:
            conflicts.append(Conflict(kind=obj["kind"], name=metadata_of(obj)["name"]))
    return owned, conflicts
