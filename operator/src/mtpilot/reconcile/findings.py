"""What a tick found out: conditions and status are made from it."""

from dataclasses import dataclass

from mtpilot.api.status import CalibrationStatus, PolicyState, SlotStatus
from mtpilot.model.decision import Decision, Demand, Mix, NoDemand
from mtpilot.model.snapshot import Snapshot

from .profiles import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """policy: the state after the tick. remedy: where slots are what binds. templates: digests of what the present spec renders.

    problem: reason and message of a spec that cannot be carried out.
    """

    snapshot: Snapshot
    slots: tuple[SlotStatus, ...]
    mix: Mix
    demand: Demand | NoDemand
    decision: Decision | None
    policy: PolicyState
    selection: Selection
    remedy: str | None
    templates: frozenset[str] = frozenset()
    problem: tuple[str, str] | None = None
    calibration: CalibrationStatus | None = None
