"""Kubernetes Events on an InferenceService.

The name is a digest of what is said, so a second process or a restart adds to the same Event's count instead of saying it
again: `kubectl describe` stays readable, and a loop that repeats itself costs one object.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.types import API_VERSION
from mtpilot.model.names import MANAGED_BY
from mtpilot.model.plan import Event
from mtpilot.model.snapshot import Manifest, Service

from .client import ApiError, KubeClient
from .paths import Ref

_MESSAGE_LIMIT = 1024


def event_name(service: Service, event: Event) -> str:
    """One name for the same type, reason and message about the same incarnation of a service."""
    said = "\n".join((service.uid, event.type, event.reason, event.message))
    return f"{service.name}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def event_manifest(service: Service, event: Event, now: datetime) -> Manifest:
    """The first Event of its kind."""
    time = _rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(service, event), "namespace": service.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "InferenceService",
            "name": service.name,
            "namespace": service.namespace,
            "uid": service.uid,
        },
        "type": event.type.value,
        "reason": event.reason,
        "message": event.message[:_MESSAGE_LIMIT],
        "action": event.action,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": MANAGED_BY},
        "reportingComponent": MANAGED_BY,
        "reportingInstance": MANAGED_BY,
    }


@dataclass(slots=True)
class EventPoster:
    """Posts an Event, or counts one that is there already (the API server forgets Events after an hour)."""

    client: KubeClient

    async def post(self, service: Service, event: Event, now: datetime) -> None:
        """ClusterError when the API server did not take it."""
        manifest = event_manifest(service, event, now)
        try:
            await self.client.create(manifest, field_manager=MANAGED_BY)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                await self._count(Ref.of(manifest), now)
            elif error.status != 403 or "terminat" not in str(error):  # NB: nothing can be created in a namespace that goes away
                raise

    async def _count(self, ref: Ref, now: datetime) -> None:
        live = await self.client.get(ref)
        if live is not None:
            await self.client.patch(ref, {"count": int(live.get("count") or 1) + 1, "lastTimestamp": _rfc3339(now)})


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
