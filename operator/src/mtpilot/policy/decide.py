"""Decide: one observation in, one decision out. Move one replica, or hold and say why.

`decide` composes the rule with the guards and with `policy.mode`; it has no memory but the state that it is given and
returns. The same arguments always give the same answer, on the cluster and from a saved snapshot.
"""

from dataclasses import replace
from datetime import datetime

from mtpilot.api.inference_service import CalibrationMode, InferenceServiceSpec, Mode, PolicyMode
from mtpilot.api.status import PolicyState
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Decision, Demand, FleetState, Mix, NoDemand, Outlook
from mtpilot.model.reasons import Reason

from . import calibrated, uncalibrated
from .advice import Advice
from .bounds import pinned_mix, step_towards
from .guards import AUTO_CHAIN, PINNED_CHAIN, PREDICTED_CHAIN, Proposal, first_violation, one_move_in_flight
from .initial import first_mix
from .lasting import UNPRESSED
from .predictive import DEFAULT_SETTINGS, PredictiveSettings

_NO_DEMAND_CHANGES = {
    Reason.PROMETHEUS_TIMEOUT: "an answer of Prometheus",
    Reason.PROMETHEUS_UNREACHABLE: "an answer of Prometheus",
    Reason.PROMETHEUS_REFUSED: "a query that Prometheus accepts",
    Reason.ENGINE_HANGS: "the engine runs its requests again, or is replaced",
    Reason.NO_READY_REPLICA: "a ready replica",
    Reason.GATEWAY_NOT_READY: "a ready gateway pod",
}


def decide(  # noqa: PLR0917 - in the order of the interface; callers may name them
    spec: InferenceServiceSpec,
    demand: Demand | NoDemand,
    fleet: FleetState,
    state: PolicyState,
    now: datetime,
    calibration: Calibration | None = None,
    *,
    explain: bool = True,
    settings: PredictiveSettings = DEFAULT_SETTINGS,
) -> Decision:
    """The decision for one service at `now` (UTC, aware). `Decision.state` goes back in at the next call.

    Args:
        calibration: measured curves; None: demand is compared with two thresholds.
        explain: make the words and the outlook as well; a replay of millions of ticks leaves them out.
        settings: constants of the rule with a profile.
    """
    if fleet.replicas == 0:
        return _hold(Mix(mtp=0, batch=0), Reason.SCALED_TO_ZERO, "the service has no replicas", "spec.replicas above 0", _rested(state))
    if fleet.mix.total == 0 and not isinstance(demand, NoDemand):  # all slots are on their way out and still serve
        demand = NoDemand(reason=Reason.NO_READY_REPLICA, message="every slot is on its way out")
    if isinstance(demand, NoDemand):
        if spec.policy.mode is PolicyMode.PINNED:
            return _pinned(spec, fleet, state, now, outlook=None)
        change = _NO_DEMAND_CHANGES.get(Reason(demand.reason), "fresh series of the live replicas")
        mix = fleet.mix if fleet.mix.total else first_mix(spec, fleet.replicas, calibration)
        return _hold(mix, Reason(demand.reason), f"{fleet.mix} stays: {demand.message}", change, state)
    if calibration is None:
        advice = uncalibrated.advise(spec=spec, demand=demand, fleet=fleet, state=state, now=now)
    else:
        advice = calibrated.advise(
            spec=spec, demand=demand, fleet=fleet, state=state, now=now, calibration=calibration, explain=explain, settings=settings
        )
    if spec.policy.mode is PolicyMode.PINNED:  # the state still learns, so that a later Auto starts with what is known
        return _pinned(spec, fleet, advice.state.model_copy(update=UNPRESSED), now, outlook=advice.outlook)
    if advice.frozen:
        return _advised(advice)
    return _guarded(spec, advice, fleet, now, awaits=calibration is None and awaits_calibration(spec))


def awaits_calibration(spec: InferenceServiceSpec) -> bool:
    """A service that is to be measured is not moved by thresholds that nobody has set."""
    return spec.profile.calibration is not CalibrationMode.NEVER and "thresholds" not in spec.policy.model_fields_set


def _rested(state: PolicyState) -> PolicyState:
    """Without replicas there is no load to remember; what mtp can do, and when it moved, stays true."""
    return state.model_copy(
        update={"smoothed_tokens_per_second": None, "in_system": None, "queued_samples": 0, "observed_at": None, **UNPRESSED}
    )


def _guarded(spec: InferenceServiceSpec, advice: Advice, fleet: FleetState, now: datetime, *, awaits: bool) -> Decision:
    to = advice.to
    proposal = Proposal(
        spec=spec,
        fleet=fleet,
        now=now,
        to=to or Mode.MTP,
        assessment=advice.assessment,
        forced=advice.forced,
        overloaded=advice.overloaded,
    )
    chain = PREDICTED_CHAIN if advice.predicted else AUTO_CHAIN
    violation = first_violation(chain if to is not None else (one_move_in_flight,), proposal)
    if violation is not None:
        text = f"{violation.message}; {advice.message}"
        return _advised(advice, reason=violation.reason, message=text, would_change=violation.would_change)
    if to is None:
        return _advised(advice)
    if awaits:
        text = f"would move one replica to {to} ({advice.reason}): {advice.message}"
        change = f"a profile: one is to be measured; policy.thresholds set by hand; or {advice.would_change}"
        return _advised(advice, reason=Reason.RECOMMEND_ONLY, message=text, would_change=change)
    if spec.policy.mode is PolicyMode.RECOMMEND_ONLY:
        text = f"would move one replica to {to} ({advice.reason}): {advice.message}"
        return _advised(advice, reason=Reason.RECOMMEND_ONLY, message=text, would_change=f"policy.mode Auto; or {advice.would_change}")
    return _advised(advice, move_to=to, message=f"one replica to {to}, {fleet.mix} → {fleet.mix.moved(to)}: {advice.message}")


def _advised(
    advice: Advice,
    *,
    move_to: Mode | None = None,
    reason: Reason | None = None,
    message: str | None = None,
    would_change: str | None = None,
) -> Decision:
    """The decision of an advice, with what the guards or the mode make of it."""
    return Decision(
        recommended=advice.recommended,
        move_to=move_to,
        reason=reason or advice.reason,
        message=advice.message if message is None else message,
        would_change=advice.would_change if would_change is None else would_change,
        state=advice.state,
        outlook=advice.outlook,
    )


def _pinned(spec: InferenceServiceSpec, fleet: FleetState, state: PolicyState, now: datetime, *, outlook: Outlook | None) -> Decision:
    """The pinned mix whatever the load; the outlook tells what that costs."""
    target = pinned_mix(spec, fleet.replicas)
    to = step_towards(fleet.mix, target)
    proposal = Proposal(spec=spec, fleet=fleet, now=now, to=to or Mode.MTP)
    violation = first_violation(PINNED_CHAIN if to is not None else (one_move_in_flight,), proposal)
    if violation is not None:
        text = f"pinned to {target}, {fleet.mix} now: {violation.message}"
        return replace(_hold(target, violation.reason, text, violation.would_change, state), outlook=outlook)
    text = f"pinned to {target}" if to is None else f"one replica to {to}: pinned to {target}, {fleet.mix} now"
    return Decision(
        recommended=target,
        move_to=to,
        reason=Reason.PINNED_MIX,
        message=text,
        would_change="policy.mode or policy.pinned",
        state=state,
        outlook=outlook,
    )


def _hold(recommended: Mix, reason: Reason, message: str, would_change: str, state: PolicyState) -> Decision:
    return Decision(recommended=recommended, move_to=None, reason=reason, message=message, would_change=would_change, state=state)
