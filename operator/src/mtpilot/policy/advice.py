"""What a rule advises before the guards are asked: the seam between `decide` and the two rules, with a profile and without one."""

from dataclasses import dataclass

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Mix, Outlook
from mtpilot.model.reasons import Reason

from .assess import Assessment
from .bounds import batch_bounds, step_towards
from .lasting import UNPRESSED
from .phrases import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One step towards `to`, or none; `recommended` is where the steps lead.

    forced: a bound of the spec asks for it, not the load. overloaded: the move is the remedy for requests that wait.
    predicted: its way, with the replica away, is priced; the guards that stand in for a prediction are not asked.
    assessment: what these guards compare; None: nothing. frozen: replicas whose series stand still: the mix holds.
    """

    recommended: Mix
    to: Mode | None
    reason: Reason
    message: str
    would_change: str
    state: PolicyState
    assessment: Assessment | None = None
    frozen: tuple[str, ...] = ()
    forced: bool = False
    overloaded: bool = False
    predicted: bool = False
    outlook: Outlook | None = None


def standing_still(mix: Mix, frozen: tuple[str, ...], state: PolicyState) -> Advice:
    """Series that stand still: no signal is told from such numbers."""
    return Advice(
        recommended=mix,
        to=None,
        reason=Reason.STALE_SERIES,
        message=f"{mix} stays: the series of {names(frozen)} stand still, its engine reports another load",
        would_change="series that agree with the engines",
        state=state.model_copy(update=UNPRESSED),
        frozen=frozen,
    )


def into_bounds(spec: InferenceServiceSpec, bounded: Mix, a: Assessment, mix: Mix, state: PolicyState, *, overloaded: bool) -> Advice:
    """One step towards the nearest mix that policy.minReplicas allows."""
    fewest, most = batch_bounds(spec, mix.total)
    return Advice(
        recommended=bounded,
        to=step_towards(mix, bounded),
        reason=Reason.BELOW_MIN_REPLICAS,
        message=f"{mix} is outside policy.minReplicas, which allows {fewest} to {most} batch replicas; {a}",
        would_change="another policy.minReplicas",
        assessment=a,
        state=state,
        forced=True,
        overloaded=overloaded,
    )
