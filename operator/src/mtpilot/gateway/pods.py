"""Engine pods as the gateway sees them: where they listen, whether they may get requests, how many at a time.

Read from the raw pod, because one label, one condition and one timestamp decide, and nothing else may delay a change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import (
    COMPONENT_GATEWAY,
    ENGINE_CONTAINER,
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    LABEL_COMPONENT,
    LABEL_MODE,
    LABEL_SERVING,
    LABEL_SLOT,
)
from mtpilot.model.snapshot import Manifest

from .shares import Share

SLOTS_FLAG = "--max-running-requests"


class ServerState(StrEnum):
    """HAProxy's words: takes requests, only finishes what it has, takes no part."""

    READY = "ready"
    DRAIN = "drain"
    MAINT = "maint"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePod:
    """One engine pod with an address.

    instance: the pod's uid and the restarts of its engine, so that what was learnt of one process is not held of the next.
    requested_slots: `--max-running-requests` of its arguments; the engine may run fewer. mode: None where its label says none.
    """

    name: str
    instance: str
    slot: str
    address: str
    port: int
    state: ServerState
    requested_slots: int | None = None
    mode: Mode | None = None


def engine_pods(manifests: Iterable[Manifest]) -> tuple[EnginePod, ...]:
    """The pods that have an address and have not ended, ordered by slot and name.

    Two pods with one address are an old one and the one that got its address: the one that serves stands for both.
    """
    pods = [pod for manifest in manifests if not _is_gateway(manifest) and (pod := _engine_pod(manifest)) is not None]
    by_address: dict[tuple[str, int], EnginePod] = {}
    for pod in sorted(pods, key=lambda pod: (_PRECEDENCE.index(pod.state), pod.slot, pod.name)):
        by_address.setdefault((pod.address, pod.port), pod)
    return tuple(sorted(by_address.values(), key=lambda pod: (pod.slot, pod.name)))


def gateway_share(manifests: Iterable[Manifest], own_address: str | None = None) -> Share:
    """This gateway among the gateway pods that take requests, by their names; one that takes none yet comes after them."""
    ready = sorted(
        (manifest["metadata"].get("name", ""), (manifest.get("status") or {}).get("podIP"))
        for manifest in manifests
        if _is_gateway(manifest) and _state(manifest["metadata"], manifest.get("status") or {}) is ServerState.READY
    )
    ranks = {address: rank for rank, (_, address) in enumerate(ready)}
    gateways = max(1, len(ready))
    return Share(gateways=gateways, rank=ranks.get(own_address, gateways - 1))


def _is_gateway(manifest: Manifest) -> bool:
    return ((manifest.get("metadata") or {}).get("labels") or {}).get(LABEL_COMPONENT) == COMPONENT_GATEWAY


_PRECEDENCE = (ServerState.READY, ServerState.MAINT, ServerState.DRAIN)


def _engine_pod(manifest: Manifest) -> EnginePod | None:
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") in {"Succeeded", "Failed"}:
        return None
    container = _named(((manifest.get("spec") or {}).get("containers")) or [], ENGINE_CONTAINER)
    engine_status = _named(status.get("containerStatuses") or [], ENGINE_CONTAINER)
    labels = metadata.get("labels") or {}
    return EnginePod(
        name=metadata.get("name", ""),
        instance=f"{metadata.get('uid', '')}/{engine_status.get('restartCount', 0)}",
        slot=labels.get(LABEL_SLOT, ""),
        address=address,
        port=_named(container.get("ports") or [], ENGINE_PORT_NAME).get("containerPort", ENGINE_PORT),
        state=_state(metadata, status),
        requested_slots=_requested_slots([*(container.get("command") or []), *(container.get("args") or [])]),
        mode=next((mode for mode in Mode if mode == labels.get(LABEL_MODE)), None),
    )


def _state(metadata: dict[str, Any], status: dict[str, Any]) -> ServerState:
    serving = (metadata.get("labels") or {}).get(LABEL_SERVING) != "false"
    if metadata.get("deletionTimestamp") or not serving:
        return ServerState.DRAIN
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in status.get("conditions") or [])
    return ServerState.READY if ready else ServerState.MAINT


def _named(items: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((item for item in items if item.get("name") == name), {})


def _requested_slots(arguments: Sequence[str]) -> int | None:
    """The value of the flag, as `--flag N` or `--flag=N`; the last one counts, as it does for the engine."""
    value = None
    for position, argument in enumerate(arguments):
        name, _, inline = argument.partition("=")
        if name == SLOTS_FLAG:
            value = inline or (arguments[position + 1] if position + 1 < len(arguments) else "")
    return int(value) if value is not None and value.isdecimal() and int(value) > 0 else None
