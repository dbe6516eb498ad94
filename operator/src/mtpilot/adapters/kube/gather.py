"""Reading everything that belongs to a service into one Snapshot.

Plain quorum reads, all at once: what the executor wrote before is always seen, no cache can lie, and a service costs about a
dozen small requests per turn. The turn of a steady service writes nothing, so reads are its whole cost.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.status import InferenceServiceStatus
from mtpilot.model.measuring import NOTHING_MEASURED
from mtpilot.model.names import FINALIZER, LABEL_SERVICE, admin_secret_name, every_engine_selector
from mtpilot.model.slots import Pod, Slot, SlotKind
from mtpilot.model.snapshot import Child, Conflict, Manifest, Service, Snapshot
from mtpilot.ports import ClusterError

from .calibration import gather_calibration, is_asked_for
from .children import CHILD_KINDS, child_from_object, split_owned
from .client import ApiError, KubeClient
from .fields import is_deleting, is_owned, metadata_of, read_time
from .groups import SET_NAME_LABEL, is_worker, with_trouble_of_workers
from .hardware import NodeGpus, OwnPods, hardware_class_from_object, matching_nodes, newest, view_of
from .paths import HARDWARE_CLASS, INFERENCE_SERVICE, Ref
from .pods import pod_from_object
from .profiles import ProfileReader
from .slots import slot_from_object

_NODES_SECONDS = 5.0
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="


@dataclass(slots=True)
class NodeReader:
    """Nodes and the pods on them, shared by all services for a few seconds: the only cluster-wide reads there are."""

    client: KubeClient
    clock: Callable[[], float] = time.monotonic
    _read_at: float = -_NODES_SECONDS
    _nodes: list[Manifest] = field(default_factory=list)
    _pods: list[Manifest] = field(default_factory=list)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def matching(self, spec: HardwareClassSpec, own: OwnPods | None = None) -> tuple[NodeGpus, ...]:
        """Nodes of a class with their GPUs, at most some seconds old but for a service's `own` pods, which were just read.

        Without them a replica that this operator has only just made would be missing, and its GPUs would look free to a surge.
        """
        await self._refresh()
        return matching_nodes(spec, self._nodes, newest(self._pods, own) if own else self._pods)

    async def _refresh(self) -> None:
        async with self._lock:
            if self.clock() - self._read_at >= _NODES_SECONDS:
                nodes, pods = await asyncio.gather(
                    self.client.list_all("v1", "Node", cached=True),
                    self.client.list_all("v1", "Pod", field_selector=_UNFINISHED, cached=True),
                )
                self._nodes, self._pods, self._read_at = nodes, pods, self.clock()


def service_from_object(obj: Manifest) -> Service:
    """The InferenceService as read.

    Raises:
        ClusterError: it does not fit the models (an older CRD is installed); the message names the field.
    """
    metadata = metadata_of(obj)
    try:
        return Service(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            generation=int(metadata.get("generation") or 0),
            spec=InferenceServiceSpec.model_validate(obj.get("spec") or {}),
            status=InferenceServiceStatus.model_validate(obj.get("status") or {}),
            deleting_since=read_time(metadata.get("deletionTimestamp")),
        )
    except ValidationError as error:
        raise ClusterError(f"InferenceService {metadata.get('namespace')}/{metadata.get('name')} cannot be read: {error}") from error


def is_held(obj: Manifest) -> bool:
    """Whether our finalizer keeps the service until it is drained."""
    return FINALIZER in (metadata_of(obj).get("finalizers") or ())


async def gather_hardware_class(client: KubeClient, name: str) -> HardwareClassSpec | None:
    """The hardware class, or None where there is no such class. Raises ClusterError."""
    found = await client.get(Ref(api_version=HARDWARE_CLASS[0], kind=HARDWARE_CLASS[1], name=name))
    return hardware_class_from_object(found) if found is not None else None


async def gather_service(client: KubeClient, namespace: str, name: str) -> Manifest | None:
    return await client.get(Ref(api_version=INFERENCE_SERVICE[0], kind=INFERENCE_SERVICE[1], name=name, namespace=namespace))


async def gather_snapshot(
    client: KubeClient, nodes: NodeReader, profiles: ProfileReader, obj: Manifest, refused: Sequence[Ref] = ()
) -> Snapshot:
    """Everything of one service. `refused`: objects that an earlier apply found to be somebody else's; looked at again.

    Raises:
        ClusterError: a read failed; there is no half snapshot.
    """
    service = service_from_object(obj)
    label = f"{LABEL_SERVICE}={service.name}"

    def listed(api_version: str, kind: str, label_selector: str = label) -> Awaitable[list[Manifest]]:
        plain = kind in {"Deployment", "ReplicaSet", "Pod"}
        return client.list_all(api_version, kind, namespace=service.namespace, label_selector=label_selector, metadata_only=not plain)

    reads = (
        listed("apps/v1", "Deployment"),
        listed("apps/v1", "ReplicaSet"),
        listed("v1", "Pod", every_engine_selector(service.name)),
        *(listed(*kind) for kind in CHILD_KINDS),
    )
    hardware, measured, secret, still_refused, groups, (deployments, replica_sets, pods, *others) = await asyncio.gather(
        gather_hardware_class(client, service.spec.hardware_class),
        profiles.of_namespace(service.namespace),
        _secret(client, service),
        _foreign(client, service, refused),
        _groups(client, service, label),
        asyncio.gather(*reads),
    )
    stateful_sets, revisions = await _parts(client, service, groups)
    owned, conflicts = split_owned([*deployments, *groups, *secret, *(obj for found in others for obj in found)], service.uid)
    slots, children = _slots_and_children(owned, [*replica_sets, *revisions], service)
    away = any(slot.state is not None and slot.state.is_calibrating for slot in slots)
    own = OwnPods(namespace=service.namespace, service=service.name, pods=pods)
    return Snapshot(
        service=service,
        hardware=view_of(service.spec.hardware_class, hardware, await nodes.matching(hardware, own)) if hardware else None,
        slots=slots,
        pods=_pods(pods, [*replica_sets, *stateful_sets], slots),
        children=children,
        conflicts=tuple(dict.fromkeys([*conflicts, *still_refused])),
        profiles=measured,
        calibration=await gather_calibration(client, service) if is_asked_for(service, away=away) else NOTHING_MEASURED,
    )


async def _groups(client: KubeClient, service: Service, label: str) -> list[Manifest]:
    """The service's LeaderWorkerSets; none where the cluster does not know the kind."""
    kind = SlotKind.LEADER_WORKER_SET
    try:
        return await client.list_all(kind.api_version, kind, namespace=service.namespace, label_selector=label)
    except ApiError as error:
        if error.status == 404:
            return []
        raise


async def _parts(client: KubeClient, service: Service, groups: Sequence[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """StatefulSets (metadata) and ControllerRevisions of LeaderWorkerSets; they carry the set's label in place of ours."""
    if not groups:
        return [], []
    names = ",".join(sorted(metadata_of(group)["name"] for group in groups))
    selector = f"{SET_NAME_LABEL} in ({names})"
    return await asyncio.gather(
        client.list_all("apps/v1", "StatefulSet", namespace=service.namespace, label_selector=selector, metadata_only=True),
        client.list_all("apps/v1", "ControllerRevision", namespace=service.namespace, label_selector=selector),
    )


async def _secret(client: KubeClient, service: Service) -> list[Manifest]:
    """The admin Secret's metadata: its value never enters this process again."""
    ref = Ref(api_version="v1", kind="Secret", name=admin_secret_name(service.name), namespace=service.namespace)
    found = await client.get(ref, metadata_only=True)
    return [found] if found is not None else []


async def _foreign(client: KubeClient, service: Service, refused: Sequence[Ref]) -> list[Conflict]:
    found = await asyncio.gather(*(client.get(ref, metadata_only=True) for ref in refused))
    return [
        Conflict(kind=ref.kind, name=ref.name)
        for ref, obj in zip(refused, found, strict=True)
        if obj is not None and not is_owned(obj, service.uid)
    ]


def _slots_and_children(
    owned: Sequence[Manifest], kept: Sequence[Manifest], service: Service
) -> tuple[tuple[Slot, ...], tuple[Child, ...]]:
    slots: list[Slot] = []
    children: list[Child] = []
    for obj in owned:
        slot = slot_from_object(obj, kept, service=service.name)
        if slot is not None:
            slots.append(slot)
        else:
            children.append(child_from_object(obj))
    return tuple(sorted(slots, key=lambda slot: slot.index)), tuple(sorted(children, key=lambda child: (child.kind, child.name)))


def _pods(pods: Sequence[Manifest], sets: Sequence[Manifest], slots: Sequence[Slot]) -> tuple[Pod, ...]:
    """Serving pods whose chain of owners ends at one of the slots, and all that are on their way out; no workers.

    The latter still hold GPUs and maybe requests when their ReplicaSet is gone already. A pod that merely carries the labels
    is neither counted nor touched. `sets`: ReplicaSets and StatefulSets.
    """
    ours = {metadata_of(found)["uid"] for found in sets if any(is_owned(found, slot.uid) for slot in slots)}
    leaders = [pod for pod in pods if not is_worker(pod) and (any(is_owned(pod, uid) for uid in ours) or is_deleting(pod))]
    parsed = [with_trouble_of_workers(found, pods, sets) for pod in leaders if (found := pod_from_object(pod)) is not None]
    return tuple(sorted(parsed, key=lambda pod: (pod.slot, pod.created_at, pod.name)))
