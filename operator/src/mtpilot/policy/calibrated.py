"""The rule with a profile: every mix within reach is priced over the next hour, and the mix moves when another one is cheaper.

The numbers are `predictive`'s; here they get their limits (bounds, targets, the profile's verdict, uncertain curves) and their
words. A move must be due for as long as `policy.stabilization` asks; a queue that takes long to clear waits for nothing.
"""

from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Demand, FleetState, Mix
from mtpilot.model.reasons import Reason

from .advice import Advice, into_bounds, standing_still
from .assess import advance
from .bounds import with_batch
from .draws import ENOUGH, odds
from .lasting import UNPRESSED, lasting_since, pressed, stabilization_seconds, stable_at
from .limits import LoadLimit, load_limits
from .looking import Look, look, pace
from .memory import record
from .outdated import without_outdated
from .phrases import clock, names, percent, span
from .predictive import DEFAULT_SETTINGS, PredictiveSettings
from .sampling import sample
from .smoothing import FORGET_AFTER_TIME_CONSTANTS
from .telling import costs_in_words, limits_in_words, load_in_words, mix_of, outlook_of
from .timing import seconds
from .weighing import after_move

_ONLY = {Verdict.MTP_ONLY: Reason.PROFILE_MTP_ONLY, Verdict.BATCH_ONLY: Reason.PROFILE_BATCH_ONLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the weighing comes to. wanted: the mode a step is due to, whether or not it is taken now. to: it is taken.

    because: words that go before the costs. when: what else than another load would change the answer.
    """

    reason: Reason
    to: Mode | None = None
    wanted: Mode | None = None
    because: str = ""
    when: str = ""
    draws_better: float | None = None


def advise(
    *,
    spec: InferenceServiceSpec,
    demand: Demand,
    fleet: FleetState,
    state: PolicyState,
    now: datetime,
    calibration: Calibration,
    explain: bool = True,
    settings: PredictiveSettings = DEFAULT_SETTINGS,
) -> Advice:
    """One observation and the state before → advice with the state after. Pure and deterministic.

    explain: make the words and the outlook as well.
    """
    state = without_outdated(state, calibration.curves, fleet)
    factor = pace(spec, settings)
    forget_after_seconds = FORGET_AFTER_TIME_CONSTANTS * settings.demand_time_constant_seconds * factor
    sampling = sample(demand, state, now, forget_after_seconds=max(forget_after_seconds, 60.0))
    if sampling.frozen:
        return standing_still(fleet.mix, sampling.frozen, state.model_copy(update=sampling.fields))
    bounded = with_batch(spec, fleet.mix.total, fleet.mix.batch)
    seen = look(spec, demand, fleet, state, sampling, calibration=calibration, settings=settings, factor=factor)
    fields = {**sampling.fields, **(record(seen.remembered) if sampling.fresh else {})}
    if bounded != fleet.mix:
        after, assessment = advance(spec, demand, fleet, state, now)
        after = after.model_copy(update={**fields, **UNPRESSED})
        return into_bounds(spec, bounded, assessment, fleet.mix, after, overloaded=demand.queued > 0)
    answer, pressure = _answer(seen, demand, fleet, state, now, explain=explain)
    return _told(seen, answer, demand, state.model_copy(update={**fields, **pressure}), explain=explain)


def _answer(
    seen: Look, demand: Demand, fleet: FleetState, state: PolicyState, now: datetime, *, explain: bool
) -> tuple[Answer, dict[str, str | None]]:
    """The answer and what it leaves of the signal in the state."""
    wanted, reason = _wanted(seen)
    if wanted is None:
        return _stay(seen, demand), UNPRESSED
    if demand.missing and (seen.pessimistic is None or seen.pessimistic.to is not wanted):
        return Answer(reason=Reason.PARTIAL_SERIES, because=_lower_bound(demand)), UNPRESSED
    if fleet.moving is not None:
        return Answer(reason=reason, wanted=wanted), UNPRESSED
    spec = seen.circumstances.spec
    since = lasting_since(spec, wanted, fleet, state, now)
    stable = stable_at(spec, wanted, since)
    if now < stable and not _queue_is_hard(seen, demand):
        wait = span(stabilization_seconds(spec, wanted))
        because = f"{_due(seen, wanted, reason)} since {clock(since)}, not yet for {wait}"
        when = f"at {clock(stable)} if it lasts: one replica to {wanted}"
        return Answer(reason=Reason.STABILIZING, because=because, when=when), pressed(wanted, since)
    return _checked(seen, wanted, reason, explain=explain), pressed(wanted, since)


def _wanted(seen: Look) -> tuple[Mode | None, Reason]:
    """The step that is due, and why."""
    weighing, circumstances = seen.weighing, seen.circumstances
    if weighing.to is not None:
        missed = weighing.here in weighing.missed
        return weighing.to, Reason.LATENCY_TARGET_MISSED if missed else Reason.CHEAPER_AFTER_MOVE
    if weighing.quiet_home:
        return circumstances.home, _ONLY[circumstances.verdict]
    return None, Reason.STAYING_IS_CHEAPER


def _stay(seen: Look, demand: Demand) -> Answer:
    weighing, circumstances = seen.weighing, seen.circumstances
    if demand.missing:
        return Answer(reason=Reason.PARTIAL_SERIES, because=_lower_bound(demand))
    if weighing.refused is not None and circumstances.home is not None:
        because = f"the profile's verdict is {circumstances.verdict}: no replica leaves {circumstances.home} under load"
        return Answer(reason=_ONLY[circumstances.verdict], because=because, when="a profile with another verdict, or policy.mode Pinned")
    here, best = weighing.costs[weighing.here], weighing.costs[weighing.choice.best]
    if best < here * (1.0 - circumstances.settings.margin):
        return Answer(reason=Reason.NOT_WORTH_THE_WAY_BACK, because="the gain is less than the way back has cost lately")
    return Answer(reason=Reason.STAYING_IS_CHEAPER)


def _lower_bound(demand: Demand) -> str:
    return f"without the series of {names(demand.missing)} demand is only a lower bound"


def _due(seen: Look, wanted: Mode, reason: Reason) -> str:
    if reason is Reason.LATENCY_TARGET_MISSED:
        return "workload.targets are missed here and met elsewhere"
    if reason in _ONLY.values():
        return f"the profile's verdict is {seen.circumstances.verdict} and the load is low enough to go over to {wanted}"
    return f"a step to {wanted} pays"


def _queue_is_hard(seen: Look, demand: Demand) -> bool:
    """Whether the last in the queue waits for longer than a share of the gateway's time-out, by what the mix can serve."""
    share = seen.circumstances.settings.hard_wait_share
    capacity = seen.circumstances.fluid.mix(seen.weighing.here).capacity
    if share is None or demand.queued <= 0 or capacity <= 0:
        return False
    wait = demand.queued * seen.weighing.forecast.load.output_tokens / capacity
    return wait > share * seconds(seen.circumstances.spec.gateway.queue_timeout)


def _checked(seen: Look, wanted: Mode, reason: Reason, *, explain: bool) -> Answer:
    """A signal that has lasted: is it sure enough, and does it not undo itself?"""
    if reason is not Reason.CHEAPER_AFTER_MOVE:
        return Answer(reason=reason, to=wanted, wanted=wanted, because=_due(seen, wanted, reason))
    weighing, choice = seen.weighing, seen.weighing.choice
    chances = odds(weighing.forecast, choice.best, choice.price - choice.regret, exact=explain)
    if not chances.enough:
        because = (
            f"a step to {wanted} pays in {percent(chances.better)} of the draws of curves as uncertain as these, not in {percent(ENOUGH)}"
        )
        return Answer(reason=Reason.CURVES_UNCERTAIN, because=because, when="more points in the profile", draws_better=chances.better)
    direction = 1 if wanted is Mode.BATCH else -1
    if after_move(seen.circumstances, weighing, direction).to is wanted.other:
        because = f"after a step to {wanted} the way back would pay at once"
        return Answer(reason=Reason.WOULD_MOVE_BACK, wanted=wanted, because=because, draws_better=chances.better)
    return Answer(reason=reason, to=wanted, wanted=wanted, draws_better=chances.better)


def _told(seen: Look, answer: Answer, demand: Demand, state: PolicyState, *, explain: bool) -> Advice:
    weighing, circumstances = seen.weighing, seen.circumstances
    message = would_change = ""
    outlook = None
    if explain:
        limits = load_limits(circumstances, weighing.forecast.load)
        outlook = outlook_of(circumstances, weighing, demand, limits, answer.draws_better)
        parts = (answer.because, costs_in_words(circumstances, weighing), load_in_words(weighing, demand))
        message = "; ".join(part for part in parts if part)
        would_change = _would_change(seen, answer, limits, demand.queued)
    return Advice(
        recommended=_recommended(seen, answer),
        to=answer.to,
        reason=answer.reason,
        message=message,
        would_change=would_change,
        state=state,
        overloaded=demand.queued > 0,
        predicted=True,
        outlook=outlook,
    )


def _recommended(seen: Look, answer: Answer) -> Mix:
    """Where the steps lead while one is wanted, else the present mix."""
    weighing, circumstances = seen.weighing, seen.circumstances
    if answer.wanted is None:
        return mix_of(circumstances, weighing.here)
    if weighing.to is answer.wanted:
        return mix_of(circumstances, weighing.choice.best)
    ends = min(circumstances.candidates), max(circumstances.candidates)
    return mix_of(circumstances, ends[answer.wanted is Mode.BATCH])


def _would_change(seen: Look, answer: Answer, limits: tuple[LoadLimit, ...], queued: float) -> str:
    loads = limits_in_words(seen.circumstances, limits, queued)
    return f"{answer.when}; {loads}" if answer.when else loads
