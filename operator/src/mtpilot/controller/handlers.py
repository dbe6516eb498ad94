"""What kopf calls: watch events in, wake-ups out.

Only kopf's low tier is used, and only to listen. Nothing is decided from an event: it starts or wakes the service's loop,
which reads everything afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from mtpilot.adapters.kube.access import load_access
from mtpilot.api.types import GROUP, VERSION
from mtpilot.model.names import LABEL_SERVICE

from .loops import Loops
from .refreshing import Refresher

_CREDENTIALS_LAST = timedelta(minutes=10)
_Mark = tuple[Any, ...]


@dataclass(slots=True)
class Attention:
    """Which changes of an object of ours are worth a turn: our own writes of status are not."""

    _seen: dict[str, _Mark] = field(default_factory=dict)

    def is_news(self, event_type: str | None, obj: Mapping[str, Any]) -> bool:
        """Whether the object differs from the one seen last in generation, deletion, finalizers or annotations."""
        metadata = obj.get("metadata") or {}
        uid = metadata.get("uid", "")
        if event_type == "DELETED":
            self._seen.pop(uid, None)
            return True
        mark = (
            metadata.get("generation"),
            metadata.get("deletionTimestamp"),
            tuple(metadata.get("finalizers") or ()),
            tuple(sorted((metadata.get("annotations") or {}).items())),
        )
        news = self._seen.get(uid) != mark
        self._seen[uid] = mark
        return news


def register(registry: kopf.OperatorRegistry, loops: Loops, profiles: Refresher) -> None:
    """Add all handlers to a registry of our own; nothing global is touched."""
    _register_watches(registry, loops)
    _register_profiles(registry, loops, profiles)
    _register_lifecycle(registry, loops)


def _register_watches(registry: kopf.OperatorRegistry, loops: Loops) -> None:
    attention = Attention()

    @kopf.on.event(GROUP, VERSION, "inferenceservices", registry=registry)
    async def service_changed(event: kopf.RawEvent, namespace: str | None, name: str | None, **_: Any) -> None:
        if namespace and name and attention.is_news(event["type"], event["object"]):
            loops.ensure((namespace, name))

    async def owned_changed(labels: Mapping[str, str], namespace: str | None, **_: Any) -> None:
        service = labels.get(LABEL_SERVICE)
        if namespace and service:
            loops.wake((namespace, service))

    kopf.on.event("apps", "v1", "deployments", registry=registry, labels={LABEL_SERVICE: kopf.PRESENT}, id="deployment")(owned_changed)
    kopf.on.event("", "v1", "pods", registry=registry, labels={LABEL_SERVICE: kopf.PRESENT}, id="pod")(owned_changed)


def _register_profiles(registry: kopf.OperatorRegistry, loops: Loops, profiles: Refresher) -> None:
    attention = Attention()

    @kopf.on.event(GROUP, VERSION, "throughputprofiles", registry=registry)
    async def profile_changed(event: kopf.RawEvent, namespace: str | None, **_: Any) -> None:
        if namespace and attention.is_news(event["type"], event["object"]):
            profiles.wake()
            loops.wake_namespace(namespace)


def _register_lifecycle(registry: kopf.OperatorRegistry, loops: Loops) -> None:
    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection_info()

    @kopf.on.cleanup(registry=registry)
    async def stop_loops(**_: Any) -> None:
        await loops.stop()

    @kopf.on.probe(registry=registry, id="loops")
    async def loops_turn(**_: Any) -> int:
        stale = loops.heartbeat.stale()
        if stale:
            raise RuntimeError(f"no turn for {loops.heartbeat.stale_seconds:g}s: {', '.join('/'.join(key) for key in stale)}")
        return len(loops.heartbeat)


async def connection_info() -> kopf.ConnectionInfo:
    """Credentials for kopf's own client, to be read again before a projected token can expire."""
    access = await load_access()
    info = kopf.ConnectionInfo(
        server=access.server,
        ca_path=access.ca_path,
        insecure=access.insecure,
        token=access.token,
        certificate_path=access.certificate_path,
        private_key_path=access.private_key_path,
    )
    return replace(info, expiration=datetime.now(UTC) + _CREDENTIALS_LAST)
