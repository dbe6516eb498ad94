"""What a rule advises before the guards are asked: the seam between `uncalibrated` and the predictive rule to come."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, FleetState, Mix
from mtpilot.model.reasons import Reason

from .assess import Assessment


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One step towards `to`, or none; `recommended` is where the steps lead.

    forced: a bound of the spec asks for it, not the load. overloaded: the move is the remedy for requests that wait.
    """

    recommended: Mix
    to: Mode | None
    reason: Reason
    message: str
    would_change: str
    assessment: Assessment
    state: PolicyState
    forced: bool = False
    overloaded: bool = False


class Advise(Protocol):
    """One observation and the state before → advice with the state after. Pure and deterministic."""

    def __call__(self, *, spec: InferenceServiceSpec, demand: Demand, fleet: FleetState, state: PolicyState, now: datetime) -> Advice: ...
