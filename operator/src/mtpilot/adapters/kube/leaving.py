"""Leaving a cluster: what must happen before the operator goes for good, so that nothing is stuck afterwards.

An InferenceService has our finalizer, which only the operator takes off. So: services that are being deleted are waited for while
the operator still drains them, then the operator is ended, and only then are finalizers taken off, since it would put them back.
What serves is not touched: a service without finalizer and operator is Deployments and a gateway that go on as they are.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mtpilot.model.names import FINALIZER
from mtpilot.model.snapshot import Manifest
from mtpilot.ports import ClusterError

from .client import JSON_PATCH, MERGE_PATCH, ApiError, KubeClient
from .fields import is_deleting, metadata_of
from .gather import is_held
from .paths import INFERENCE_SERVICE, Ref

_POLL_SECONDS = 1.0
_ATTEMPTS = 5
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # an evicted pod stays listed, and decides nothing
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One InferenceService at the time of the look. `moving`: its slots that do not serve, as `name (phase)`."""

    name: str
    namespace: str
    uid: str
    held: bool
    deleting: bool
    moving: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """released: finalizer taken off, serves on. ended: deleted and drained. forced: being deleted, and not drained in time."""

    released: tuple[Found, ...] = ()
    ended: tuple[Found, ...] = ()
    forced: tuple[Found, ...] = ()


@dataclass(slots=True)
class Leaving:
    """The steps, each safe to repeat. `namespaces`: where services are cleaned up; none: everywhere.

    operator: its Deployment, which is scaled to zero; None where it runs elsewhere and has been ended by hand.
    """

    client: KubeClient
    namespaces: Sequence[str] = ()
    operator: Ref | None = None
    poll_seconds: float = _POLL_SECONDS

    async def run(self, *, stop_serving: bool, timeout_seconds: float, say: Say) -> Outcome:
        """All steps in order.

        Raises:
            ClusterError: the API server refused or did not answer, or the operator did not end in time.
        """
        before = await self.find()
        if stop_serving:
            for service in before:
                if not service.deleting:
                    say(f"{service}: deleted; its replicas drain")
                    await self.client.delete(_ref(service), uid=service.uid)
        await self._until_deleted(timeout_seconds, say)
        await self._end_operator(timeout_seconds, say)
        left = await self.find()
        for service in left:
            if service.held:
                say(f"{service}: finalizer taken off" + (", its drain is not over" if service.deleting else "; its replicas serve on"))
                await self._release(service)
        there = {service.uid for service in left}
        return Outcome(
            released=tuple(service for service in left if not service.deleting),
            forced=tuple(service for service in left if service.deleting and service.held),
            ended=tuple(service for service in before if service.uid not in there),
        )

    async def find(self) -> tuple[Found, ...]:
        """The InferenceServices, by namespace and name; none where the CRD is not installed."""
        try:
            listed = [await self.client.list_all(*INFERENCE_SERVICE, namespace=namespace) for namespace in self.namespaces or (None,)]
        except ApiError as error:
            if error.status == 404:
                return ()
            raise
        return tuple(sorted((found_from_object(obj) for objects in listed for obj in objects), key=str))

    async def _until_deleted(self, timeout_seconds: float, say: Say) -> None:
        deadline, said = time.monotonic() + timeout_seconds, ""
        while going := [service for service in await self.find() if service.deleting and service.held]:
            words = f"waits until {', '.join(map(str, going))} {'is' if len(going) == 1 else 'are'} drained"
            if words != said:
                say(words)
                said = words
            if time.monotonic() >= deadline:
                say(f"not drained within {timeout_seconds:g} s: {', '.join(map(str, going))}")
                return
            await asyncio.sleep(self.poll_seconds)

    async def _end_operator(self, timeout_seconds: float, say: Say) -> None:
        if self.operator is None or (deployment := await self.client.get(self.operator)) is None:
            return
        say(f"ends the operator ({self.operator})")
        await self.client.request("PATCH", f"{self.operator.path}/scale", body={"spec": {"replicas": 0}}, content_type=MERGE_PATCH)
        selector = ",".join(f"{key}={value}" for key, value in sorted(deployment["spec"]["selector"]["matchLabels"].items()))
        deadline = time.monotonic() + timeout_seconds
        namespace = self.operator.namespace
        while await self.client.list_all("v1", "Pod", namespace=namespace, label_selector=selector, field_selector=_UNFINISHED):
            if time.monotonic() >= deadline:
                raise ClusterError(f"the operator's pod did not end within {timeout_seconds:g} s; no finalizer was taken off")
            await asyncio.sleep(self.poll_seconds)

    async def _release(self, service: Found) -> None:
        """Take our finalizer off; others stay. Somebody else's write in between makes the look and the write be taken again."""
        for _ in range(_ATTEMPTS):
            obj = await self.client.get(_ref(service))
            if obj is None or metadata_of(obj)["uid"] != service.uid or not is_held(obj):
                return
            try:
                await self.client.patch(_ref(service), release_patch(obj), content_type=JSON_PATCH)
                return
            except ApiError as error:
                if error.status == 404:
                    return
                if error.status not in {409, 422}:
                    raise
        raise ClusterError(f"{service} changes too often: its finalizer was not taken off")


def found_from_object(obj: Manifest) -> Found:
    """What matters of an InferenceService, however damaged the rest of it is."""
    metadata = metadata_of(obj)
    slots = (obj.get("status") or {}).get("slots") or ()
    return Found(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        held=is_held(obj),
        deleting=is_deleting(obj),
        moving=tuple(f"{slot.get('name')} ({slot.get('phase')})" for slot in slots if slot.get("phase") != "Serving"),
    )


def release_patch(obj: Manifest) -> list[dict[str, Any]]:
    """A JSON patch that takes our finalizer off exactly the object that was read."""
    metadata = metadata_of(obj)
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/finalizers", "value": [name for name in metadata["finalizers"] if name != FINALIZER]},
    ]


def _ref(service: Found) -> Ref:
    return Ref(api_version=INFERENCE_SERVICE[0], kind=INFERENCE_SERVICE[1], name=service.name, namespace=service.namespace)
