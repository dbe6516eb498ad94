"""A replica slot as it is: its object (a Deployment, or a LeaderWorkerSet over several nodes), its pods, and the rollout state kept on it.

`RolloutState` is the only stored state of a flip. It is written to one annotation in one request, so a decision is either
made or not, whatever process is killed at whatever moment.
"""

import json
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from mtpilot.api.inference_service import Mode


class SlotKind(StrEnum):
    """What holds a slot: the kind follows from the hardware class's `nodesPerReplica`."""

    DEPLOYMENT = "Deployment"
    LEADER_WORKER_SET = "LeaderWorkerSet"

    @property
    def api_version(self) -> str:
        return "apps/v1" if self is SlotKind.DEPLOYMENT else "leaderworkerset.x-k8s.io/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutState:
    """What was decided for a slot and how far it got; times are UTC.

    Attributes:
        desired_mode: the mode the slot shall have; differs from the template's mode during a flip.
        from_mode, decided_at, reason, message: the flip that set `desired_mode`, for status, events and the flip budget;
            kept until the next flip of this slot.
        completed_at: when that flip served for the first time; None while it is under way.
        surge: the slot was added beyond the budget for a flip or a roll; a slot of the old kind retires once it serves.
        retiring: scaled away: drains, then its object is deleted.
        drain_started_at: set when the pod lost its serving label.
        replace_started_at: set just before another template is applied; the ready deadline counts from here.
        target_digest: template digest of the replacement that is under way.
        rolling_back: the replacement missed its deadline and the served template was put back.
        served_mode, served_digest: what last served: the place to roll back to.
        failed_digest, failed_at, failures: the template that never became ready; not tried again until back-off ends.
        calibration, calibrating_since: the run that the slot is out of rotation for, and since when.
        home_mode: the mode that it had before a calibration, for the way back; kept over a pause, until the slot is moved otherwise.
    """

    desired_mode: Mode
    from_mode: Mode | None = None
    decided_at: datetime | None = None
    completed_at: datetime | None = None
    reason: str | None = None
    message: str | None = None
    surge: bool = False
    retiring: bool = False
    drain_started_at: datetime | None = None
    replace_started_at: datetime | None = None
    target_digest: str | None = None
    rolling_back: bool = False
    served_mode: Mode | None = None
    served_digest: str | None = None
    failed_digest: str | None = None
    failed_at: datetime | None = None
    failures: int = 0
    calibration: str | None = None
    calibrating_since: datetime | None = None
    home_mode: Mode | None = None

    @property
    def is_calibrating(self) -> bool:
        """Out of rotation for a calibration; a slot that retires or is scaled away is no more."""
        return self.calibration is not None and not self.retiring


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRevision:
    """A template that the cluster still has: a Deployment's in a ReplicaSet, a LeaderWorkerSet's in a ControllerRevision.

    `template` is a pod template, or a LeaderWorkerSet's `leaderWorkerTemplate`.
    """

    digest: str
    mode: Mode
    template: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The object of one replica.

    `digest` and `mode` are those of the template that the object carries now; `refused`: why no pod can be made
    (a quota, an admission webhook), in the API server's words; a LeaderWorkerSet does not say.
    """

    name: str
    index: int
    uid: str
    kind: SlotKind = SlotKind.DEPLOYMENT
    mode: Mode
    digest: str
    replicas: int
    deleting: bool = False
    drifted: bool = False  # somebody else changed fields that we own
    object_digest: str | None = None  # our digest annotation of the whole object
    created_at: datetime
    refused: str | None = None
    state: RolloutState | None = None
    revisions: tuple[TemplateRevision, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One engine pod: the only pod of a replica, or the leader of several; workers serve nothing and are no Pod of a snapshot.

    Attributes:
        ready: condition Ready is True.
        was_ready: the pod has been ready at some time (Ready now, or its startup probe has succeeded).
        serving: the serving label is not "false".
        crash_looping: a container waits in CrashLoopBackOff, or restarted without ever getting ready.
        waiting_reason, waiting_message: of a container that cannot start (ErrImagePull, …), else of one of its workers'.
        unschedulable: the scheduler's words while the pod, or else one of its workers, cannot be placed.
    """

    name: str
    uid: str
    slot: str
    mode: Mode
    digest: str
    ip: str | None = None
    node: str | None = None
    created_at: datetime
    ready: bool = False
    ready_since: datetime | None = None
    was_ready: bool = False
    serving: bool = True
    terminating: bool = False
    finished: bool = False  # phase Succeeded or Failed
    crash_looping: bool = False
    restarts: int = 0
    waiting_reason: str | None = None
    waiting_message: str | None = None
    unschedulable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """`/v1/loads` of one pod, asked directly; None in the snapshot means it did not answer: unknown, not idle."""

    running: int
    waiting: int
    effective_max_running_requests: int | None = None

    @property
    def in_flight(self) -> int:
        return self.running + self.waiting


_TIMES = ("decided_at", "completed_at", "drain_started_at", "replace_started_at", "failed_at", "calibrating_since")
_MODES = ("desired_mode", "from_mode", "served_mode", "home_mode")


@lru_cache(maxsize=1024)
def encode_state(state: RolloutState) -> str:
    """The annotation's text: compact JSON, camelCase, only what is set, keys sorted."""
    values: dict[str, Any] = {}
    for item in fields(state):
        value = getattr(state, item.name)
        if value is None or value is False or value == 0:
            continue
        values[to_camel(item.name)] = value.isoformat() if isinstance(value, datetime) else value
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=1024)
def decode_state(text: str) -> RolloutState:
    """Read `encode_state`'s text.

    Raises:
        ValueError: somebody else wrote the annotation and it cannot be understood.
    """
    try:
        raw = {to_snake(key): value for key, value in json.loads(text).items()}
        known = {item.name for item in fields(RolloutState)}
        values = {key: value for key, value in raw.items() if key in known}
        values |= {key: datetime.fromisoformat(values[key]) for key in _TIMES if key in values}
        values |= {key: Mode(values[key]) for key in _MODES if key in values}
        return RolloutState(**values)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"rollout state annotation cannot be read: {error}") from error
