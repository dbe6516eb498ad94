"""`ports.Cluster` over the Kubernetes API."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from mtpilot.adapters.clock import SystemClock
from mtpilot.api.types import API_VERSION
from mtpilot.model.names import FIELD_MANAGER
from mtpilot.model.plan import Action, Event, ReleaseService
from mtpilot.model.snapshot import DEFAULT_IMAGES, GatewayImages, Manifest, Service, Snapshot
from mtpilot.ports import ClusterError
from mtpilot.reconcile.profile_status import profile_status

from .client import KubeClient
from .events import EventPoster
from .execute import Executor
from .fields import metadata_of
from .gather import NodeReader, gather_service, gather_snapshot, is_held
from .hardware import hardware_class_from_object, status_of
from .paths import HARDWARE_CLASS, THROUGHPUT_PROFILE
from .profiles import Mark, ProfileReader, conditions_of, profile_from_object, profile_mark

_log = structlog.get_logger(__name__)


class KubeCluster:
    """Everything that the controller asks of Kubernetes; one instance for the whole process. `images`: of every gateway."""

    def __init__(self, client: KubeClient, images: GatewayImages = DEFAULT_IMAGES) -> None:
        self.client = client
        self._clock = SystemClock()
        self._images = images
        self._nodes = NodeReader(client)
        self._profiles = ProfileReader(client)
        self._executor = Executor(client)
        self._events = EventPoster(client)
        self._judged: set[Mark] = set()  # profiles whose status was brought up to date by this process
        self._held: set[str] = set()  # uids that had our finalizer when last read

    async def gather(self, namespace: str, name: str) -> Snapshot | None:
        obj = await gather_service(self.client, namespace, name)
        if obj is None:
            return None
        uid = metadata_of(obj)["uid"]
        (self._held.add if is_held(obj) else self._held.discard)(uid)
        refused = self._executor.refused.get(uid, set())
        snapshot = await gather_snapshot(self.client, self._nodes, self._profiles, obj, tuple(refused))
        still = {(conflict.kind, conflict.name) for conflict in snapshot.conflicts}
        refused.intersection_update({ref for ref in refused if (ref.kind, ref.name) in still})
        return replace(snapshot, images=self._images)

    async def hold(self, service: Service) -> None:
        if service.uid not in self._held and service.deleting_since is None:
            await self._executor.hold(service)
            self._held.add(service.uid)

    async def execute(self, service: Service, action: Action) -> None:
        await self._executor.execute(service, action)
        if isinstance(action, ReleaseService):
            self._held.discard(service.uid)

    async def write_status(self, service: Service, status: Manifest) -> None:
        await self._apply_status("InferenceService", status, name=service.name, namespace=service.namespace, uid=service.uid)

    async def post_event(self, service: Service, event: Event, now: datetime) -> None:
        await self._events.post(service, event, now)

    async def write_hardware_status(self, name: str, status: Manifest) -> None:
        await self._apply_status("HardwareClass", status, name=name)

    async def refresh_hardware(self) -> int:
        """Bring the status of every hardware class up to date; returns how many had to be written."""
        classes = await self.client.list_all(*HARDWARE_CLASS)
        return sum(await asyncio.gather(*(_apart(self._refresh, obj) for obj in classes)))

    async def refresh_profiles(self, namespaces: Sequence[str]) -> int:
        """Bring the status of every throughput profile up to date, each generation once; returns how many had to be written."""
        found = await asyncio.gather(
            *(self.client.list_all(*THROUGHPUT_PROFILE, namespace=namespace, cached=True) for namespace in namespaces or (None,))
        )
        objects = [obj for listed in found for obj in listed]
        marks = {profile_mark(obj) for obj in objects}
        written = [await _apart(self._refresh_profile, obj) for obj in objects if profile_mark(obj) not in self._judged]
        self._judged &= marks
        return sum(written)

    async def _refresh_profile(self, obj: Manifest) -> bool:
        """NB: in a thread: the conclusion with its bootstrap takes longer than the loops of the services may wait."""
        judged = await asyncio.to_thread(profile_status, profile_from_object(obj), self._clock.now(), conditions_of(obj))
        status = judged.model_dump(mode="json", by_alias=True, exclude_none=True)
        metadata, differs = metadata_of(obj), bool(obj.get("status", {}) != status)
        if differs:
            await self._apply_status(
                "ThroughputProfile", status, name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        self._judged.add(profile_mark(obj))
        return differs

    async def _refresh(self, obj: Manifest) -> bool:
        status = status_of(await self._nodes.matching(hardware_class_from_object(obj))).model_dump(mode="json", by_alias=True)
        if obj.get("status") == status:
            return False
        await self.write_hardware_status(metadata_of(obj)["name"], status)
        return True

    async def _apply_status(self, kind: str, status: Manifest, **metadata: str) -> None:
        manifest = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status}
        await self.client.apply(manifest, field_manager=FIELD_MANAGER, subresource="status")


async def _apart(refresh: Callable[[Manifest], Awaitable[bool]], obj: Manifest) -> bool:
    """Whether the object's status was written. A failure is logged and left to the next look: it holds up no other object."""
    try:
        return await refresh(obj)
    except ClusterError as error:
        metadata = metadata_of(obj)
        _log.warning("status not refreshed", kind=obj["kind"], name=metadata["name"], namespace=metadata.get("namespace"), error=str(error))
        return False
