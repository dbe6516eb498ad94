"""A container's environment, command and arguments, resolved as a kubelet does and then mapped onto this machine.

There is no mount and no network namespace, so two things are rewritten in command, arguments and values: a mount's path becomes the
folder behind it, and the address 0.0.0.0 becomes the pod's own, because many pods listen on the same port of one machine.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.clusters.local.config import Image

Objects = Mapping[tuple[str, str], dict[str, Any]]
"""ConfigMaps and Secrets of the pod's namespace by (kind, name); an absent one is not in it."""

_REFERENCE = re.compile(r"\$(?:\$|\(([A-Za-z_][\w.-]*)\))")
_WILDCARD = re.compile(r"(?<![\w.])0\.0\.0\.0(?![\w.])")
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": 1e-3, "": 1.0}


class ConfigError(Exception):
    """Something that the pod refers to is missing; the text is the kubelet's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the downward API tells beside the manifest."""

    pod_ip: str
    host_ip: str
    node_name: str


def references(container: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Give the (kind, name) of each ConfigMap and Secret that a container's environment refers to."""
    found = set()
    for source in container.get("envFrom", []):
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if key in source:
                found.add((kind, source[key]["name"]))
    for entry in container.get("env", []):
        for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if key in entry.get("valueFrom", {}):
                found.add((kind, entry["valueFrom"][key]["name"]))
    return found


def data_of(kind: str, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Give the decoded entries of a ConfigMap or Secret."""
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in (manifest.get("data") or {}).items()}
    text = {key: value.encode() for key, value in (manifest.get("data") or {}).items()}
    return text | {key: base64.b64decode(value) for key, value in (manifest.get("binaryData") or {}).items()}


def resolve(container: Mapping[str, Any], pod: Mapping[str, Any], facts: PodFacts, objects: Objects) -> dict[str, str]:
    """Give the variables of `envFrom` and `env`, in their order, later ones seeing earlier ones; ConfigError for a missing reference."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom", []):
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if key in source:
                entries = _entries(kind, source[key], objects)
                variables |= {source.get("prefix", "") + name: value.decode() for name, value in entries.items()}
    for entry in container.get("env", []):
        value = _value(entry, container, pod, facts, objects) if "valueFrom" in entry else expand(entry.get("value", ""), variables)
        if value is not None:
            variables[entry["name"]] = value
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; an unknown one stays, `$$` is a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def field_value(path: str, pod: Mapping[str, Any], facts: PodFacts) -> str:
    """Give a downward-API field; ConfigError for one that does not exist."""
    metadata, spec = pod["metadata"], pod["spec"]
    indexed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if indexed:
        return str((metadata.get(indexed[1]) or {}).get(indexed[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        entries = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": facts.node_name,
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
    }
    if path not in known:
        raise ConfigError(f"unsupported field path: {path}")
    return str(known[path])


def command_line(container: Mapping[str, Any], image: Image, variables: Mapping[str, str]) -> list[str]:
    """Give program and arguments: the container's own, else the image's, with the image's replacements made."""
    command = container.get("command") or []
    arguments = container.get("args") or ([] if command else image.default_arguments)
    line = [expand(part, variables) for part in [*(command or image.entrypoint), *arguments]]
    for replacement in image.replacements:
        length = len(replacement.command)
        if line[:length] == replacement.command:
            return [*replacement.by, *line[length:]]
    return line


class Mapper:
    """Rewrites a pod's view of paths and addresses into this machine's."""

    def __init__(self, mounts: Mapping[str, str], pod_ip: str) -> None:
        self._mounts = {path.rstrip("/"): target for path, target in mounts.items()}
        self._pod_ip = pod_ip
        paths = sorted(self._mounts, key=len, reverse=True)
        joined = "|".join(re.escape(path) for path in paths)
        self._pattern = re.compile(rf"(?<![\w./-])({joined})(?![\w.-])") if paths else None

    def text(self, text: str) -> str:
        """Rewrite one argument or value."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._mounts[match[1]], text)
        return _WILDCARD.sub(self._pod_ip, text)

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Rewrite each of some arguments."""
        return [self.text(text) for text in texts]


def _entries(kind: str, reference: Mapping[str, Any], objects: Objects) -> dict[str, bytes]:
    manifest = objects.get((kind, reference["name"]))
    if manifest is not None:
        return data_of(kind, manifest)
    if reference.get("optional"):
        return {}
    raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')


def _value(entry: Mapping[str, Any], container: Mapping[str, Any], pod: Mapping[str, Any], facts: PodFacts, objects: Objects) -> str | None:
    source = entry["valueFrom"]
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], pod, facts)
    if "resourceFieldRef" in source:
        return resource_value(source["resourceFieldRef"], container)
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            reference = source[key]
            entries = _entries(kind, reference, objects)
            if reference["key"] in entries:
                return entries[reference["key"]].decode()
            if reference.get("optional"):
                return None
            raise ConfigError(f"couldn't find key {reference['key']} in {kind} {pod['metadata']['namespace']}/{reference['name']}")
    raise ConfigError(f"unsupported source of {entry['name']}")


def resource_value(reference: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """Give `limits.cpu` and the like in units of the divisor, rounded up; 0 for one that is not set."""
    group, _, resource = reference["resource"].partition(".")
    quantity = container.get("resources", {}).get(group, {}).get(resource, "0")
    divisor = reference.get("divisor", "1")
    return str(math.ceil(_quantity(quantity) / (_quantity(divisor) or 1.0)))


def _quantity(text: str) -> float:
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    if match is None or match[2] not in _UNITS:
        raise ConfigError(f"unsupported quantity: {text}")
    return float(match[1]) * _UNITS[match[2]]
