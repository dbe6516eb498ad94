"""The rule without a profile: two thresholds on demand, as shares of what an all-mtp fleet can do.

Up (towards batch) above 0.97 of it or with requests queued in two samples, down (towards mtp) below 0.75 of it with an
empty queue, each only after the signal has lasted its stabilization. Demand is compared, not running requests: the number
that runs depends on the mode, and a threshold on it latches or flaps. Between the two, every mix is left as it is.
"""

from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, FleetState, Mix
from mtpilot.model.reasons import Reason

from .advice import Advice, into_bounds, standing_still
from .assess import Assessment, advance
from .bounds import batch_bounds, with_batch
from .lasting import UNPRESSED, lasting_since, pressed, stabilization_seconds, stable_at
from .phrases import clock, count, empty_queue, names, rate, span

QUEUED_SAMPLES_FOR_UP = 2
# A way out of batch while mtp has never been seen full: what runs would fit into a quarter of the mtp slots, so whatever
# mtp can do per slot, it can do this. Without it a fleet that starts in batch, or whose mtp template changes, would stay there.
SURE_TO_FIT_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What this sample asks for, before it has lasted."""

    to: Mode
    reason: Reason
    since: datetime
    stable_at: datetime


def advise(*, spec: InferenceServiceSpec, demand: Demand, fleet: FleetState, state: PolicyState, now: datetime) -> Advice:
    """One observation and the state before → advice with the state after. Pure and deterministic."""
    after, assessment = advance(spec, demand, fleet, state, now)
    if assessment.frozen:
        return standing_still(fleet.mix, assessment.frozen, after)
    wanted = _wanted(spec, assessment, fleet.mix)
    signal = None if wanted is None else _signal(spec, *wanted, since=lasting_since(spec, wanted[0], fleet, state, now))
    after = after.model_copy(update=UNPRESSED if signal is None else pressed(signal.to, signal.since))
    bounded = with_batch(spec, fleet.mix.total, fleet.mix.batch)
    stable = signal is not None and signal.stable_at <= now
    if bounded != fleet.mix:
        overloaded = stable and signal is not None and signal.to is Mode.BATCH
        return into_bounds(spec, bounded, assessment, fleet.mix, after, overloaded=overloaded)
    if signal is None:
        return _steady(spec, assessment, fleet.mix, after)
    return (_move if stable else _stabilizing)(spec, signal, assessment, fleet.mix, after)


def _wanted(spec: InferenceServiceSpec, a: Assessment, mix: Mix) -> tuple[Mode, Reason] | None:
    """The direction this sample asks for. Up needs the average and the sample above the limit: an overload that is over is none."""
    if a.up_limit is not None and a.lowest > a.up_limit:
        return Mode.BATCH, Reason.DEMAND_ABOVE_MTP_CAPACITY
    if a.queued > 0 and a.queued_samples >= QUEUED_SAMPLES_FOR_UP:
        return Mode.BATCH, Reason.REQUESTS_QUEUED
    fewest, _ = batch_bounds(spec, mix.total)
    if mix.batch <= fewest or a.queued > 0 or a.missing:
        return None
    fits = a.smoothed < a.down_limit if a.down_limit is not None else a.in_flight <= SURE_TO_FIT_SHARE * a.mtp_slots
    return (Mode.MTP, Reason.DEMAND_FITS_MTP) if fits else None


def _signal(spec: InferenceServiceSpec, to: Mode, reason: Reason, *, since: datetime) -> Signal:
    return Signal(to=to, reason=reason, since=since, stable_at=stable_at(spec, to, since))


def _target(spec: InferenceServiceSpec, signal: Signal, mix: Mix) -> Mix:
    """Where the rule goes: all the way by demand, one step by a queue, whose size says nothing about how many it takes."""
    batch = {Reason.DEMAND_ABOVE_MTP_CAPACITY: mix.total, Reason.REQUESTS_QUEUED: mix.batch + 1}.get(signal.reason, 0)
    return with_batch(spec, mix.total, batch)


def _move(spec: InferenceServiceSpec, signal: Signal, a: Assessment, mix: Mix, state: PolicyState) -> Advice:
    return Advice(
        recommended=_target(spec, signal, mix),
        to=signal.to,
        reason=signal.reason,
        message=f"{_because(signal.reason, a)} since {clock(signal.since)}; {a}",
        would_change=_relief(spec, signal.to, a),
        assessment=a,
        state=state,
        overloaded=signal.to is Mode.BATCH,
    )


def _because(reason: Reason, a: Assessment) -> str:
    if reason is Reason.DEMAND_ABOVE_MTP_CAPACITY and a.up_limit is not None:
        return f"demand is above {rate(a.up_limit)}, {a.up_share:g} of the mtp capacity,"
    if reason is Reason.REQUESTS_QUEUED:
        return f"{count(a.queued)} queued, seen in {a.queued_samples} samples in a row,"
    if a.down_limit is not None:
        return f"demand is below {rate(a.down_limit)}, {a.down_share:g} of the mtp capacity, and nothing is queued"
    return f"what runs fits into {SURE_TO_FIT_SHARE:g} of {a.mtp_slots} mtp slots and nothing is queued"


def _relief(spec: InferenceServiceSpec, to: Mode, a: Assessment) -> str:
    """What would end the signal."""
    if to is Mode.BATCH:
        return "an empty queue" + (f" and demand below {rate(a.up_limit)}" if a.up_limit is not None else "")
    return "a queue" + (f" or demand above {rate(a.down_limit)}" if a.down_limit is not None else " or more running requests")


def _stabilizing(spec: InferenceServiceSpec, signal: Signal, a: Assessment, mix: Mix, state: PolicyState) -> Advice:
    wait = span(stabilization_seconds(spec, signal.to))
    return Advice(
        recommended=mix,
        to=None,
        reason=Reason.STABILIZING,
        message=f"{_because(signal.reason, a)} since {clock(signal.since)}, not yet for {wait}; {a}",
        would_change=f"at {clock(signal.stable_at)} if it lasts: one replica to {signal.to}; until then {_relief(spec, signal.to, a)}",
        assessment=a,
        state=state,
    )


def _steady(spec: InferenceServiceSpec, a: Assessment, mix: Mix, state: PolicyState) -> Advice:
    reason, text = Reason.STEADY, f"{mix} stays"
    if a.missing:
        reason = Reason.PARTIAL_SERIES
        text = f"{mix} stays: without the series of {names(a.missing)} demand is only a lower bound"
    elif a.capacity is None and mix.batch > 0 and a.queued == 0:
        reason = Reason.CAPACITY_UNKNOWN
        text = f"{mix} stays: no mtp replica has been seen full, so whether mtp would do is unknown"
    elif a.capacity is None and a.any_mtp_full:
        reason = Reason.CAPACITY_UNKNOWN
        text = f"{mix} stays: an mtp replica is full for the first time, one more sample gives its capacity"
    return Advice(
        recommended=mix, to=None, reason=reason, message=f"{text}; {a}", would_change=_thresholds(spec, a, mix), assessment=a, state=state
    )


def _thresholds(spec: InferenceServiceSpec, a: Assessment, mix: Mix) -> str:
    """The loads that would move this fleet, each with the time it must last."""
    up, down = (span(stabilization_seconds(spec, to)) for to in (Mode.BATCH, Mode.MTP))
    parts = []
    fewest, most = batch_bounds(spec, mix.total)
    if mix.batch < most:
        limit = f"demand above {rate(a.up_limit)} or " if a.up_limit is not None else "every mtp replica full or "
        parts.append(f"to batch: {limit}requests queued for {up}")
    if mix.batch <= fewest:
        pass
    elif a.missing:
        parts.append(f"to mtp: not before {names(a.missing)} has series again")
    elif a.down_limit is not None:
        parts.append(f"to mtp: demand below {rate(a.down_limit)} {empty_queue(a.queued)} for {down}")
    else:
        parts.append(f"to mtp: at most {count(SURE_TO_FIT_SHARE * a.mtp_slots)} requests running {empty_queue(a.queued)} for {down}")
    return "; ".join(parts) or "another policy.minReplicas"
