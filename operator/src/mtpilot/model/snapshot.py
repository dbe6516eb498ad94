"""Snapshot: everything one decision looks at, as frozen plain data.

`plan(snapshot, now)` sees nothing else. A snapshot can be saved as YAML and planned again offline with the same result.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.status import InferenceServiceStatus, PolicyState
from mtpilot.api.throughput_profile import ThroughputProfileSpec

from .measuring import NOTHING_MEASURED, CalibrationView
from .metrics import MetricsView
from .names import AGENT_IMAGE, HAPROXY_IMAGE
from .slots import EngineLoad, Pod, Slot

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The InferenceService as read."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: InferenceServiceSpec
    status: InferenceServiceStatus = field(default_factory=InferenceServiceStatus)
    deleting_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareView:
    """The service's hardware class with what its nodes have free now."""

    name: str
    spec: HardwareClassSpec
    nodes: int
    gpus_total: int
    gpus_free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A ThroughputProfile of the service's namespace; no spec where it could not be read, with the reason in `problem`."""

    name: str
    generation: int
    spec: ThroughputProfileSpec | None
    problem: str | None = None
    owner_uid: str | None = None  # of the InferenceService that had it measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """An owned object other than a slot. `digest` is our annotation.

    ready, desired, changed_at: only of workloads; the last is when the number of ready pods, or a rollout, last got further.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    digest: str | None = None
    deleting: bool = False
    ready: int | None = None
    desired: int | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """An object with a name we need that is not ours; it is never touched."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayImages:
    """Images of a gateway pod's two containers: the operator is told them once, for all services.

    pull_secrets: names of Secrets in the services' namespaces.
    """

    haproxy: str = HAPROXY_IMAGE
    agent: str = AGENT_IMAGE
    pull_secrets: tuple[str, ...] = ()


DEFAULT_IMAGES = GatewayImages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    service: Service
    images: GatewayImages = DEFAULT_IMAGES
    hardware: HardwareView | None = None
    slots: tuple[Slot, ...] = ()
    pods: tuple[Pod, ...] = ()
    children: tuple[Child, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    profiles: tuple[Profile, ...] = ()  # of the namespace, by name
    engines: dict[str, EngineLoad] = field(default_factory=dict)  # pod uid → load; absent: did not answer
    metrics: MetricsView | None = None
    calibration: CalibrationView = NOTHING_MEASURED
    taken_at: datetime | None = None  # of a saved snapshot only: `mtpilot plan` decides for that moment; plan() is given its time
    memory: PolicyState | None = None  # the policy state of the last plan, where this process made one; else status has it
