"""The pod template overlay: a strategic merge that cannot undo what the drain and the rollout rely on.

Maps merge key by key, lists of named objects by the name their kind uses, tolerations are added, other lists and scalars
are replaced, null removes. An `env` or `volumes` entry is replaced whole: it has exactly one source. What the operator must
know for sure (labels, arguments, probes, grace) is refused with the field that sets it.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from mtpilot.api.types import GROUP
from mtpilot.model.names import ENGINE_CONTAINER, service_labels

from .environment import RESERVED_VARIABLES
from .errors import InvalidOverlay

OVERLAY_FIELD = "spec.engine.podTemplate"

_MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
}
_REPLACED_WHOLE = frozenset({"env", "volumes"})
_ADDED = frozenset({"tolerations"})
_POD_FIELDS: Mapping[str, str] = {
    "terminationGracePeriodSeconds": "set spec.rollout.drainTimeout",
    "restartPolicy": "is Always",
}
_ENGINE_FIELDS: Mapping[str, str] = {
    "image": "set spec.engine.image",
    "command": "the engine must be PID 1, or SIGTERM does not drain it",
    "args": "set spec.modes.*.extraArgs",
    "startupProbe": "set spec.rollout.readyTimeout",
    "readinessProbe": "readiness must not measure load",
    "lifecycle": "the pre-stop pause keeps late requests whole",
}


def merge(base: Any, overlay: Any, *, field: str = OVERLAY_FIELD, key: str = "") -> Any:
    """Merge an overlay into a value; `key` is the name of the field that holds it. Neither argument is changed.

    Raises:
        InvalidOverlay: the overlay has another kind of value than the base, or a list entry without its name.
    """
    if isinstance(base, dict) and isinstance(overlay, Mapping):
        return _merge_maps(base, overlay, field)
    if isinstance(base, list) and _is_list(overlay):
        return _merge_lists(base, overlay, field, key)
    if isinstance(base, dict | list) or isinstance(overlay, Mapping) or _is_list(overlay):
        raise InvalidOverlay(field, f"must be {_kind(base)}, not {_kind(overlay)}")
    return overlay


def apply_overlay(template: dict[str, Any], overlay: Mapping[str, Any] | None, *, service: str) -> dict[str, Any]:
    """The pod template with the user's overlay merged in.

    Raises:
        InvalidOverlay: the overlay is malformed, or sets a label, annotation or field that mtpilot sets.
    """
    if overlay is None:
        return deepcopy(template)
    _refuse_metadata(overlay, service)
    merged: dict[str, Any] = merge(template, overlay)
    _refuse_changes(template, merged)
    return merged


def engine_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's container of a pod template. Raises KeyError when there is none."""
    for container in template.get("spec", {}).get("containers", []):
        if container.get("name") == ENGINE_CONTAINER:
            found: dict[str, Any] = container
            return found
    raise KeyError(ENGINE_CONTAINER)


def _merge_maps(base: dict[str, Any], overlay: Mapping[str, Any], field: str) -> dict[str, Any]:
    merged = deepcopy(base)
    for name, value in overlay.items():
        if value is None:
            merged.pop(name, None)
        elif name in merged:
            merged[name] = merge(merged[name], value, field=f"{field}.{name}", key=name)
        else:
            merged[name] = merge(_empty_like(value), value, field=f"{field}.{name}", key=name)
    return merged


def _merge_lists(base: list[Any], overlay: Sequence[Any], field: str, key: str) -> list[Any]:
    if key in _MERGE_KEYS:
        return _merge_named(base, overlay, field, key)
    if key in _ADDED:
        return deepcopy([*base, *(entry for index, entry in enumerate(overlay) if entry not in base and entry not in overlay[:index])])
    return deepcopy(list(overlay))


def _merge_named(base: list[Any], overlay: Sequence[Any], field: str, key: str) -> list[Any]:
    merge_key = _MERGE_KEYS[key]
    merged = {entry[merge_key]: deepcopy(entry) for entry in base}
    for index, entry in enumerate(overlay):
        if not isinstance(entry, Mapping) or not isinstance(entry.get(merge_key), str | int):
            raise InvalidOverlay(f"{field}[{index}]", f"needs a {merge_key}, which says what it is merged with")
        name = entry[merge_key]
        kept = {} if key in _REPLACED_WHOLE else merged.get(name, {})
        merged[name] = merge(kept, entry, field=f"{field}[{name}]")
    return list(merged.values())


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _empty_like(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {}
    return [] if _is_list(value) else None


def _kind(value: Any) -> str:
    return "a map" if isinstance(value, Mapping) else "a list" if _is_list(value) else "a plain value"


def _refuse_metadata(overlay: Mapping[str, Any], service: str) -> None:
    metadata = overlay.get("metadata")
    if metadata is None and "metadata" not in overlay and "spec" not in overlay and overlay:
        raise InvalidOverlay(OVERLAY_FIELD, "is a pod template: it has metadata and spec")
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        raise InvalidOverlay(f"{OVERLAY_FIELD}.metadata", "must be a map")
    own_labels = service_labels(service, "")
    for part in ("labels", "annotations"):
        for name in metadata.get(part) or {}:
            if str(name).startswith((f"{GROUP}/", "prometheus.io/")) or (part == "labels" and name in own_labels):
                raise InvalidOverlay(f"{OVERLAY_FIELD}.metadata.{part}[{name}]", "is set by mtpilot")


def _refuse_changes(template: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    for part in ("metadata", "spec"):
        if part not in merged:
            raise InvalidOverlay(f"{OVERLAY_FIELD}.{part}", "cannot be removed")
    for part in ("labels", "annotations"):
        if part not in merged["metadata"]:
            raise InvalidOverlay(f"{OVERLAY_FIELD}.metadata.{part}", "cannot be removed")
    _refuse_fields(template["spec"], merged["spec"], _POD_FIELDS, f"{OVERLAY_FIELD}.spec")
    kept_volumes = {volume["name"] for volume in merged["spec"].get("volumes", [])}
    for volume in template["spec"].get("volumes", []):
        if volume["name"] not in kept_volumes:
            raise InvalidOverlay(f"{OVERLAY_FIELD}.spec.volumes[{volume['name']}]", "cannot be removed")
    field = f"{OVERLAY_FIELD}.spec.containers[{ENGINE_CONTAINER}]"
    before = engine_container(template)
    try:
        after = engine_container(merged)
    except KeyError:
        raise InvalidOverlay(field, "cannot be removed") from None
    _refuse_fields(before, after, _ENGINE_FIELDS, field)
    _refuse_engine_lists(before, after, field)


def _refuse_fields(before: Mapping[str, Any], after: Mapping[str, Any], fields: Mapping[str, str], field: str) -> None:
    for name, advice in fields.items():
        if name in before and after.get(name) != before[name]:
            raise InvalidOverlay(f"{field}.{name}", advice)


def _refuse_engine_lists(before: Mapping[str, Any], after: Mapping[str, Any], field: str) -> None:
    for name in ("env", "volumeMounts", "ports"):
        key = _MERGE_KEYS[name]
        kept = {entry[key]: entry for entry in after.get(name) or []}
        for entry in before.get(name, []):
            fixed = name != "env" or entry[key] in RESERVED_VARIABLES
            if entry[key] not in kept or (fixed and kept[entry[key]] != entry):
                raise InvalidOverlay(f"{field}.{name}[{entry[key]}]", "is set by mtpilot")
    limits = before.get("resources", {}).get("limits", {})
    kept_limits = (after.get("resources") or {}).get("limits") or {}
    for name, amount in limits.items():
        if "/" in name and kept_limits.get(name) != amount:
            raise InvalidOverlay(f"{field}.resources.limits[{name}]", "GPUs come from the hardware class")
