"""What a slot's next step depends on besides the slot itself, and what a step is.

`Templates` keeps rendering out of this package: a step asks for the digest or the manifest of a mode and does not know how
one is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
        """The Deployment of a slot in a mode, carrying the rollout state."""
        ...

    def revision(self, slot: Slot, digest: str, state: RolloutState) -> Manifest | None:
        """The Deployment around an older template that the cluster still has, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Settings and observations that are the same for all slots of a service. `loads`: pod uid → load."""

    now: datetime
    templates: Templates
    loads: Mapping[str, EngineLoad]
    drain_timeout: timedelta
    ready_timeout: timedelta
    back_off: timedelta
    settle: timedelta = SETTLE


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


def back_off_ends(state: RolloutState, context: Context) -> datetime | None:
    """When the failed template may be tried again: doubles with each failure, at most MAX_BACK_OFF."""
    if state.failed_at is None:
        return None
    doubled: timedelta = context.back_off * 2 ** min(max(state.failures - 1, 0), 16)
    return state.failed_at + min(doubled, MAX_BACK_OFF)


def is_blocked(state: RolloutState, digest: str, context: Context) -> bool:
    """Whether a template failed lately and must not be tried yet."""
    ends = back_off_ends(state, context)
    return ends is not None and state.failed_digest == digest and context.now < ends
