"""Carrying out one action: a function per action type of model/plan.py, each safe to repeat.

Two rules hold for every write: it names the uid of what was looked at, so that an object that was replaced meanwhile is
never hit; and an object without our owner reference is left alone, whatever its labels say.
"""

import secrets
from base64 import b64encode
from dataclasses import dataclass, field

import structlog

from mtpilot.model.names import (
    ANNOTATION_ROLLOUT_STATE,
    FIELD_MANAGER,
    FINALIZER,
    LABEL_SERVING,
    ROLLOUT_FIELD_MANAGER,
)
from mtpilot.model.plan import Action, ApplyObject, DeleteObject, EnsureSecret, ReleaseService, SetRolloutState, SetServing
from mtpilot.model.slots import SlotKind, encode_state
from mtpilot.model.snapshot import Manifest, Service
from mtpilot.ports import ClusterError

from .client import JSON_PATCH, ApiError, KubeClient
from .fields import is_owned, metadata_of
from .gather import is_held
from .paths import INFERENCE_SERVICE, Ref

_SECRET_BYTES = 32
LEADER_WORKER_SET_MISSING = (
    "this cluster has no leaderworkerset.x-k8s.io/v1: install LeaderWorkerSet 0.7 or later, or use a HardwareClass with nodesPerReplica 1"
)
_log = structlog.get_logger(__name__)


class NotOursError(ClusterError):
    """An object with a name we need belongs to somebody else. `ref` is its address."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(f"{ref} exists and is not owned by this InferenceService: left alone")
        self.ref = ref


@dataclass(slots=True)
class Executor:
    """Writes for services; `refused` remembers, per service uid, the foreign objects that were met, for the next gather."""

    client: KubeClient
    refused: dict[str, set[Ref]] = field(default_factory=dict)

    async def execute(self, service: Service, action: Action) -> None:
        """Carry out one action; ClusterError when it was not."""
        match action:
            case ApplyObject():
                await self._apply_object(service, action.manifest)
            case EnsureSecret():
                await self._ensure_secret(service, action)
            case SetRolloutState():
                annotations = {ANNOTATION_ROLLOUT_STATE: encode_state(action.state)}
                await self._set(service, (action.kind.api_version, action.kind), name=action.slot, uid=action.uid, annotations=annotations)
            case SetServing():
                labels = {LABEL_SERVING: "true" if action.serving else "false"}
                await self._set(service, ("v1", "Pod"), name=action.pod, uid=action.uid, labels=labels)
            case DeleteObject():
                await self._delete(service, action)
            case ReleaseService():
                await self.release(service)

    async def _apply_object(self, service: Service, manifest: Manifest) -> None:
        ref = Ref.of(manifest)
        live = await self._ours(service, ref)
        metadata = metadata_of(manifest) if live is None else metadata_of(manifest) | {"uid": metadata_of(live)["uid"]}
        try:
            created, _ = await self.client.apply(manifest | {"metadata": metadata}, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status == 404 and ref.kind == SlotKind.LEADER_WORKER_SET:
                raise ClusterError(f"{ref}: {LEADER_WORKER_SET_MISSING}") from error
            raise
        if live is None and not created:
            # Somebody made an object of that name in the milliseconds since the look; the next gather tells whose it is.
            _log.warning("an object appeared while it was being created", object=str(ref))

    async def _ensure_secret(self, service: Service, action: EnsureSecret) -> None:
        ref = Ref.of(action.manifest)
        if await self._ours(service, ref) is not None:
            return
        # NB: not token_urlsafe: it may begin with "-", and the engine's command line then takes the key for an option.
        value = b64encode(secrets.token_hex(_SECRET_BYTES).encode()).decode()
        try:
            await self.client.create(action.manifest | {"data": {action.key: value}}, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status != 409:
                raise

    async def _set(
        self,
        service: Service,
        kind: tuple[str, str],
        *,
        name: str,
        uid: str,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Own just these keys of an object's metadata; refused for another incarnation of the name."""
        metadata: Manifest = {"name": name, "namespace": service.namespace, "uid": uid}
        metadata |= {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
        await self.client.apply({"apiVersion": kind[0], "kind": kind[1], "metadata": metadata}, field_manager=ROLLOUT_FIELD_MANAGER)

    async def _delete(self, service: Service, action: DeleteObject) -> None:
        ref = Ref(api_version=action.api_version, kind=action.kind, name=action.name, namespace=service.namespace)
        live = await self.client.get(ref, metadata_only=True)
        if live is None or metadata_of(live).get("uid") != action.uid:
            return
        if not is_owned(live, service.uid):
            raise self._refuse(service, ref)
        await self.client.delete(ref, uid=action.uid)

    async def _ours(self, service: Service, ref: Ref) -> Manifest | None:
        """The live object's metadata, None where there is none; NotOursError for somebody else's."""
        live = await self.client.get(ref, metadata_only=True)
        if live is not None and not is_owned(live, service.uid):
            raise self._refuse(service, ref)
        self.refused.get(service.uid, set()).discard(ref)
        return live

    def _refuse(self, service: Service, ref: Ref) -> NotOursError:
        self.refused.setdefault(service.uid, set()).add(ref)
        return NotOursError(ref)

    async def hold(self, service: Service) -> None:
        """Put our finalizer on the service, once."""
        obj = await self.client.get(_ref(service))
        if obj is None or is_held(obj) or metadata_of(obj).get("deletionTimestamp"):
            return
        await self._write_finalizers(service, obj, [*(metadata_of(obj).get("finalizers") or ()), FINALIZER])

    async def release(self, service: Service) -> None:
        """Take our finalizer off: Kubernetes then removes the service and what it still owns."""
        self.refused.pop(service.uid, None)
        obj = await self.client.get(_ref(service))
        if obj is None or not is_held(obj) or metadata_of(obj)["uid"] != service.uid:
            return
        await self._write_finalizers(service, obj, [name for name in metadata_of(obj)["finalizers"] if name != FINALIZER])

    async def _write_finalizers(self, service: Service, obj: Manifest, finalizers: list[str]) -> None:
        metadata = metadata_of(obj)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": service.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]
        await self.client.patch(_ref(service), patch, content_type=JSON_PATCH)


def _ref(service: Service) -> Ref:
    return Ref(api_version=INFERENCE_SERVICE[0], kind=INFERENCE_SERVICE[1], name=service.name, namespace=service.namespace)
