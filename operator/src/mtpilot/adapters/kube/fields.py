"""Reading live objects: times, owners, labels, and who changed what.

Pure functions over plain dicts. A missing or odd field reads as its empty value: an object that somebody damaged must not
stop the loop.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from mtpilot.model.names import FIELD_MANAGER, ROLLOUT_FIELD_MANAGER
from mtpilot.model.snapshot import Manifest

EPOCH = datetime.fromtimestamp(0, UTC)
_OURS = frozenset({FIELD_MANAGER, ROLLOUT_FIELD_MANAGER})

# Fields of a slot that every rendering sets. Only these count as drift: applying again takes them back, whereas
# a field that we never render would stay with its owner and be "corrected" for ever.
_TEMPLATE = ("f:spec", "f:template")
_ENGINE = (*_TEMPLATE, "f:spec", "f:containers", 'k:{"name":"engine"}')
WATCHED_SLOT_FIELDS: tuple[tuple[str, ...], ...] = (
    ("f:spec", "f:replicas"),
    (*_ENGINE, "f:image"),
    (*_ENGINE, "f:args"),
    (*_ENGINE, "f:readinessProbe", "f:httpGet"),
    (*_ENGINE, "f:startupProbe", "f:httpGet"),
    (*_TEMPLATE, "f:spec", "f:terminationGracePeriodSeconds"),
)
_GROUP = ("f:spec", "f:leaderWorkerTemplate")
WATCHED_GROUP_FIELDS: tuple[tuple[str, ...], ...] = (
    ("f:spec", "f:replicas"),
    (*_GROUP, "f:size"),
    *(
        (*_GROUP, part, *path[2:])
        for part in ("f:leaderTemplate", "f:workerTemplate")
        for path in WATCHED_SLOT_FIELDS[1:]
        if part == "f:leaderTemplate" or not path[-2].endswith("Probe")
    ),
)


def metadata_of(obj: Manifest) -> dict[str, Any]:
    return obj.get("metadata") or {}


def labels_of(obj: Manifest) -> dict[str, str]:
    return metadata_of(obj).get("labels") or {}


def annotations_of(obj: Manifest) -> dict[str, str]:
    return metadata_of(obj).get("annotations") or {}


def read_time(text: str | None) -> datetime | None:
    """An RFC 3339 time as the API server writes it, in UTC; None for nothing or nonsense."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def created_at(obj: Manifest) -> datetime:
    return read_time(metadata_of(obj).get("creationTimestamp")) or EPOCH


def is_deleting(obj: Manifest) -> bool:
    return bool(metadata_of(obj).get("deletionTimestamp"))


def is_owned(obj: Manifest, uid: str) -> bool:
    """Whether the object carries an owner reference to `uid`: the only thing that makes it ours to change."""
    return any(owner.get("uid") == uid for owner in metadata_of(obj).get("ownerReferences") or ())


def condition(obj: Manifest, kind: str) -> dict[str, Any]:
    """A condition of the object's status, or an empty one."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found.get("type") == kind:
            return dict(found)
    return {}


def owned_by_others(obj: Manifest, watched: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Names of foreign field managers that own one of the watched fields and not just share it with us."""
    entries = metadata_of(obj).get("managedFields") or ()
    main = [entry for entry in entries if not entry.get("subresource")]
    ours = [entry.get("fieldsV1") or {} for entry in main if entry.get("manager") in _OURS]
    return tuple(sorted({entry.get("manager", "") for entry in main if entry.get("manager") not in _OURS and _takes(entry, watched, ours)}))


def _takes(entry: Mapping[str, Any], watched: tuple[tuple[str, ...], ...], ours: list[dict[str, Any]]) -> bool:
    theirs = entry.get("fieldsV1") or {}
    return any(_has(theirs, path) and not any(_has(fields, path) for fields in ours) for path in watched)


def _has(fields: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    node: Any = fields
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return False
        node = node[key]
    return True


def container_statuses(pod: Manifest) -> Iterator[dict[str, Any]]:
    """Init containers' statuses, then containers'."""
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
