"""Plan: what to do next, as data. The shell executes it in order and stops at the first failure.

Every action is safe to repeat: a plan that was cut short is simply made again from what is there then.
"""

from dataclasses import dataclass
from enum import StrEnum

from mtpilot.api.status import InferenceServiceStatus

from .slots import RolloutState, SlotKind
from .snapshot import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyObject:
    """Server-side apply of an owned object with FIELD_MANAGER, force on."""

    manifest: Manifest
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureSecret:
    """Create the Secret with a random value under `key` unless it exists; an existing value is never changed."""

    manifest: Manifest
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRolloutState:
    """Write the rollout state annotation of a slot's object (ROLLOUT_FIELD_MANAGER, uid as precondition)."""

    slot: str
    kind: SlotKind
    uid: str
    state: RolloutState


@dataclass(frozen=True, slots=True, kw_only=True)
class SetServing:
    """Set the serving label of one pod (ROLLOUT_FIELD_MANAGER, uid as precondition)."""

    pod: str
    uid: str
    serving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteObject:
    """Delete an owned object, uid as precondition, background propagation; absent is fine."""

    api_version: str
    kind: str
    name: str
    uid: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseService:
    """Everything is drained and gone: the finalizer may be removed (the controller's daemon returns)."""


Action = ApplyObject | EnsureSecret | SetRolloutState | SetServing | DeleteObject | ReleaseService


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes Event on the InferenceService."""

    type: EventType
    reason: str
    message: str
    action: str = "Reconcile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Actions in order, then the events to post, then the status to have.

    Events come before status because both are derived from the difference to the old status: a process that is killed in
    between posts an event twice (the poster aggregates) and never loses one.

    write_status: the status differs from the one read in something worth a write.
    requeue_seconds: when to look again at the latest.
    """

    actions: tuple[Action, ...] = ()
    status: InferenceServiceStatus
    write_status: bool
    events: tuple[Event, ...] = ()
    requeue_seconds: float = 10.0
