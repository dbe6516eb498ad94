"""What a slot's next step depends on besides the slot itself, and what a step is.

`Templates` keeps rendering out of this package: a step asks for the digest or the manifest of a mode and does not know how
one is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import SlotPhase
from mtpilot.model.plan import Action, Event
from mtpilot.model.slots import EngineLoad, RolloutState, Slot
from mtpilot.model.snapshot import Manifest

MAX_BACK_OFF = timedelta(hours=4)
SETTLE = timedelta(seconds=3)  # for the gateway's agent to see the label and the engine to publish its load


class Templates(Protocol):
    """Renderings of the service's present spec."""

    def digest(self, mode: Mode) -> str:
        """Digest of the pod template for a mode."""
        ...

    def manifest(self, index: int, mode: Mode, state: RolloutState) -> Manifest:
        """The object of a slot in a mode, carrying the rollout state."""
        ...

    def revision(self, slot: Slot, digest: str, state: RolloutState) -> Manifest | None:
        """The object around an older template that the cluster still has, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A template that missed its ready deadline, in whatever slot: put aside until `ends`."""

    ends: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Settings and observations that are the same for all slots of a service.

    loads: pod uid → load. failures: template digest → failure, of all slots, so that a bad template is not tried in one
    slot after another. surplus: more slots serve than spec.replicas, as in a surge before the old slot retires.
    """

    now: datetime
    templates: Templates
    loads: Mapping[str, EngineLoad]
    drain_timeout: timedelta
    ready_timeout: timedelta
    back_off: timedelta
    settle: timedelta = SETTLE
    failures: Mapping[str, Failure] = field(default_factory=dict)
    surplus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do with a slot now and what to report of it.

    moving: the slot is on its way between two templates (or drains to retire); only one may be.
    failed_surge: a surge slot missed its deadline: delete it, and keep its failure on a peer.
    """

    phase: SlotPhase
    state: RolloutState
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    since: datetime | None = None
    deadline: datetime | None = None
    message: str | None = None
    moving: bool = False
    failed_surge: bool = False


def failures_of(states: Iterable[RolloutState], back_off: timedelta) -> dict[str, Failure]:
    """Failures by template digest; the back-off doubles with each failure, at most MAX_BACK_OFF.

    A failure is over once another slot has gone over to the template and served.
    """
    states = tuple(states)
    found: dict[str, Failure] = {}
    for state in states:
        if state.failed_digest is None or state.failed_at is None:
            continue
        if any(_served_since(peer, state.failed_digest, state.failed_at) for peer in states):
            continue
        known = found.get(state.failed_digest)
        count = max(state.failures, known.count if known else 0)
        wait = min(back_off * 2 ** min(max(count - 1, 0), 16), MAX_BACK_OFF)
        ends = max(state.failed_at + wait, known.ends if known else state.failed_at)
        found[state.failed_digest] = Failure(ends=ends, count=count)
    return found


def _served_since(peer: RolloutState, digest: str, at: datetime) -> bool:
    return peer.served_digest == digest and peer.completed_at is not None and peer.completed_at > at


def blocked_until(digest: str, context: Context) -> datetime | None:
    """When a template that failed lately may be tried again; None where it may be tried now."""
    failure = context.failures.get(digest)
    return failure.ends if failure is not None and context.now < failure.ends else None


def count_failure(digest: str | None, context: Context) -> int:
    """How often a template has failed, with the failure that happens now."""
    failure = context.failures.get(digest or "")
    return (failure.count if failure else 0) + 1
