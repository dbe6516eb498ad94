"""Take one look into what the predictive rule remembers, and set up what it weighs."""

from dataclasses import dataclass, replace

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, Objective
from mtpilot.api.status import PolicyState
from mtpilot.curves.curve import CurvePair
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Demand, FleetState

from .curves_in_use import accept_length, effective_slots, fleet_in_use, mtp_scale
from .forecast import Forecast, Load
from .loop import sharpened
from .memory import Remembered, recall
from .predictive import LONGEST_LOOK_SECONDS, Memory, PredictiveSettings, learn_prices, pay_off, take
from .refine import refine
from .regret import MOST_REPLICAS, note_regret
from .sampling import Sampling
from .spell import ahead, go_on
from .timing import seconds
from .weighing import Circumstances, Weighing, candidates_of, judge, terms_of, weigh

FASTEST_PACE = 1 / 36  # averages over less than some seconds hold no sample


def pace(spec: InferenceServiceSpec, settings: PredictiveSettings) -> float:
    """Factor on the rule's time constants: a service that is told to react in seconds does not average over minutes."""
    return min(max(seconds(spec.policy.stabilization.down) / settings.usual_stabilization_seconds, FASTEST_PACE), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """remembered: with this sample in it. pessimistic: the load that there may be where replicas have no series; None: all have some."""

    circumstances: Circumstances
    weighing: Weighing
    remembered: Remembered
    pessimistic: Weighing | None = None


def look(
    spec: InferenceServiceSpec,
    demand: Demand,
    fleet: FleetState,
    state: PolicyState,
    sampling: Sampling,
    *,
    calibration: Calibration,
    settings: PredictiveSettings,
    factor: float,
) -> Look:
    """Everything that one tick weighs. factor: `pace`."""
    remembered = recall(state)
    elapsed = sampling.elapsed_seconds
    if sampling.fresh:
        remembered = _take(spec, demand, calibration.curves, remembered, elapsed=elapsed, settings=settings, factor=factor)
    circumstances, load = _set_up(spec, demand, fleet, calibration=calibration, remembered=remembered, settings=settings)
    if settings.spells:
        remembered, circumstances = _with_spell(
            circumstances, load, remembered, in_system=demand.in_flight + demand.queued, elapsed=elapsed if sampling.fresh else None
        )
    forecast = Forecast(circumstances.fluid, circumstances.here, load, circumstances.terms)
    costs = forecast.costs(circumstances.candidates)
    learns = sampling.fresh and fleet.moving is None
    if learns and circumstances.fluid.replicas <= MOST_REPLICAS:
        looked = min(elapsed or 0.0, LONGEST_LOOK_SECONDS)
        rule = replace(remembered.rule, regret=note_regret(remembered.rule.regret, forecast, elapsed_seconds=looked))
        remembered, circumstances = replace(remembered, rule=rule), replace(circumstances, memory=rule)
    if learns:
        rule = learn_prices(settings, remembered.rule, forecast, costs, elapsed_seconds=elapsed, pace=factor)
        remembered, circumstances = replace(remembered, rule=rule), replace(circumstances, memory=rule)
    weighing = judge(circumstances, forecast, costs)
    pessimistic = weigh(circumstances, _with_missing(load, demand)) if demand.missing else None
    if learns:
        rule = pay_off(settings, remembered.rule, forecast, costs, weighing.choice, elapsed_seconds=elapsed)
        remembered = replace(remembered, rule=rule)
    return Look(circumstances=circumstances, weighing=weighing, remembered=remembered, pessimistic=pessimistic)


def _take(
    spec: InferenceServiceSpec,
    demand: Demand,
    curves: CurvePair,
    before: Remembered,
    *,
    elapsed: float | None,
    settings: PredictiveSettings,
    factor: float,
) -> Remembered:
    length = accept_length(
        before.accept_length,
        demand,
        curves,
        elapsed_seconds=elapsed,
        smoothing_seconds=settings.demand_time_constant_seconds * factor,
        forgetting_pace=factor,
    )
    refinement = before.refinement
    if settings.refine:
        looked = min(elapsed or 0.0, LONGEST_LOOK_SECONDS)
        scale = mtp_scale(curves, length)
        refinement = refine(refinement, demand.replicas, curves, mtp_scale=scale, elapsed_seconds=looked, pace=factor)
    rule = take(
        settings,
        before.rule,
        demand=demand.demand_tokens_per_second,
        queued=demand.queued,
        in_system=demand.in_flight + demand.queued,
        elapsed_seconds=elapsed,
        pace=factor,
    )
    return Remembered(
        rule=rule,
        refinement=refinement,
        accept_length=length,
        mtp_slots=effective_slots(Mode.MTP, demand.replicas, before.mtp_slots, requested=spec.modes.mtp.max_running_requests),
        batch_slots=effective_slots(Mode.BATCH, demand.replicas, before.batch_slots, requested=spec.modes.batch.max_running_requests),
    )


def _set_up(
    spec: InferenceServiceSpec,
    demand: Demand,
    fleet: FleetState,
    *,
    calibration: Calibration,
    remembered: Remembered,
    settings: PredictiveSettings,
) -> tuple[Circumstances, Load]:
    here, memory = fleet.mix.batch, remembered.rule
    by_latency = spec.workload.objective is Objective.LATENCY
    fluid = fleet_in_use(spec, calibration.curves, remembered, fleet.mix.total, by_latency=by_latency)
    circumstances = Circumstances(
        spec=spec,
        settings=settings,
        fluid=fluid,
        here=here,
        terms=terms_of(spec, fleet, settings),
        candidates=candidates_of(spec, fleet.mix.total, here),
        memory=memory,
        verdict=calibration.verdict,
    )
    load = _load(memory, demand, more_than_slots=demand.in_flight - fluid.mix(here).slots)
    return circumstances, replace(load, closed_weight=sharpened(load.closed_weight)) if settings.spells else load


def _with_spell(
    circumstances: Circumstances, load: Load, remembered: Remembered, *, in_system: float, elapsed: float | None
) -> tuple[Remembered, Circumstances]:
    """The spell one sample later, where clients wait.

    in_system: requests now: what was served is averaged later, and of the smoothed number each change would be late. elapsed: seconds;
    None: this is no new sample.
    """
    c, rule = circumstances, remembered.rule
    replicas, horizon_minutes = c.fluid.replicas, c.terms.horizon_minutes
    if elapsed is not None and load.closed_weight > 0.5:
        spell = go_on(
            rule.spell,
            batch=c.fluid.mix(replicas).rate(load.in_system) > c.fluid.mix(0).rate(load.in_system),
            mtp_rate=c.fluid.mix(0).rate(in_system) / replicas,
            batch_rate=c.fluid.mix(replicas).rate(in_system) / replicas,
            elapsed_minutes=min(elapsed, LONGEST_LOOK_SECONDS) / 60.0,
            horizon_minutes=horizon_minutes,
        )
        rule = replace(rule, spell=spell)
        remembered = replace(remembered, rule=rule)
    if rule.spell.batch is None:
        return remembered, c
    return remembered, replace(c, memory=rule, terms=replace(c.terms, ahead=ahead(rule.spell, replicas, horizon_minutes)))


def _load(memory: Memory, demand: Demand, *, more_than_slots: float) -> Load:
    """What runs beyond the slots of the curves adds nothing to the rate, so it waits as far as the model goes."""
    current = demand.demand_tokens_per_second
    return Load(
        demand=current if memory.demand is None else memory.demand,
        queued=demand.queued + max(0.0, more_than_slots),
        in_system=demand.in_flight + demand.queued if memory.in_system is None else memory.in_system,
        closed_weight=memory.loop.closed_weight,
        output_tokens=max(demand.mean_output_tokens, 1.0),
        lately=memory.lately.minutes,
    )


def _with_missing(load: Load, demand: Demand) -> Load:
    """As if each replica without series ran what the others run."""
    share = 1.0 + len(demand.missing) / max(len(demand.replicas), 1)
    return replace(load, demand=load.demand * share, in_system=load.in_system * share)
