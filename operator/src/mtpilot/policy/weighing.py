"""Weigh: one load, one fleet, every mix within reach priced, and what the profile's verdict and the latency targets leave of it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, Objective, RolloutStrategy
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.decision import FleetState

from .bounds import batch_bounds
from .fluid import FluidFleet
from .forecast import TINY, Forecast, Load, Terms
from .predictive import Choice, Memory, PredictiveSettings, choose, choose_with_regret, priced
from .targets import missing_targets

QUIET_SHARE = 0.85  # of what is left while a replica is away
QUIET_ALONE_SHARE = 0.05  # of the capacity, where nothing is left

_HOME = {Verdict.MTP_ONLY: Mode.MTP, Verdict.BATCH_ONLY: Mode.BATCH}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What stays the same however the load changes.

    memory: with the prices of return learned. candidates: numbers of batch replicas that are looked at, the present one among them.
    """

    spec: InferenceServiceSpec
    settings: PredictiveSettings
    fluid: FluidFleet
    here: int
    terms: Terms
    candidates: tuple[int, ...]
    memory: Memory
    verdict: Verdict = Verdict.FLIP

    @property
    def home(self) -> Mode | None:
        """The only mode that the profile leaves, if there is one."""
        return _HOME.get(self.verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """costs: request-minutes by number of batch replicas. missed: mixes that miss a target which another one meets.

    choice: among what the verdict allows. refused: what would be due without the verdict. quiet_home: a step to the only mode of
    the profile costs nobody anything now.
    """

    forecast: Forecast
    costs: dict[int, float]
    missed: frozenset[int]
    choice: Choice
    refused: Choice | None = None
    quiet_home: bool = False

    @property
    def here(self) -> int:
        return self.forecast.batch

    @property
    def to(self) -> Mode | None:
        """The mode that a replica is due to go over to."""
        if not self.choice.due:
            return None
        return Mode.BATCH if self.choice.best > self.here else Mode.MTP


def candidates_of(spec: InferenceServiceSpec, replicas: int, here: int) -> tuple[int, ...]:
    """The present mix, one step each way, and all the way, within policy.minReplicas."""
    fewest, most = batch_bounds(spec, replicas)
    return tuple(sorted({here} | {k for k in (here - 1, here + 1, fewest, most) if fewest <= k <= most}))


def terms_of(spec: InferenceServiceSpec, fleet: FleetState, settings: PredictiveSettings) -> Terms:
    """Throughput counts what waits and what is lost double; Latency weighs what runs, which is the fluid model's matter.

    A slow flip looks further ahead: what takes long to pay for is worth it where the load lasts. A lone replica does not, since nobody
    serves meanwhile; its regret does that.
    """
    weight = 2.0 if spec.workload.objective is Objective.THROUGHPUT else 1.0
    flip_minutes = max(fleet.expected_flip_seconds, 1.0) / 60.0
    slow = settings.horizon_flips * flip_minutes if fleet.mix.total > 1 else 0.0
    return Terms(
        horizon_minutes=max(settings.horizon_minutes, slow),
        flip_minutes=flip_minutes,
        waiting=weight,
        lost=weight,
        lost_by_clients=settings.lost_by_clients,
        spare=spec.rollout.strategy is RolloutStrategy.SURGE and fleet.gpus_free >= fleet.gpus_per_replica,
    )


def weigh(circumstances: Circumstances, load: Load) -> Weighing:
    """Price every candidate for `load` and choose."""
    c = circumstances
    forecast = Forecast(c.fluid, c.here, load, c.terms)
    return judge(c, forecast, forecast.costs(c.candidates))


def judge(c: Circumstances, forecast: Forecast, costs: dict[int, float]) -> Weighing:
    """Choose among prices that are there already."""
    missed = missing_targets(c.spec, forecast, c.candidates)
    memory = priced(c.memory, forecast)
    everything = _choose(c, memory, forecast, costs, missed)
    if c.home is None:
        return Weighing(forecast=forecast, costs=costs, missed=missed, choice=everything)
    allowed = {k: cost for k, cost in costs.items() if (k <= c.here if c.home is Mode.MTP else k >= c.here)}
    return Weighing(
        forecast=forecast,
        costs=costs,
        missed=missed,
        choice=_choose(c, memory, forecast, allowed, missed),
        refused=everything if everything.due and everything.best not in allowed else None,
        quiet_home=_is_quiet_home(c, forecast, allowed),
    )


def _choose(c: Circumstances, memory: Memory, forecast: Forecast, costs: dict[int, float], missed: frozenset[int]) -> Choice:
    choice = choose(c.settings, memory, c.here, costs, missed)
    return choose_with_regret(
        c.settings, memory, forecast, {k: cost for k, cost in costs.items() if k not in missed or k == c.here}, choice
    )


def _is_quiet_home(c: Circumstances, forecast: Forecast, allowed: Iterable[int]) -> bool:
    """A step to the only mode: there is one to take, nothing waits, the others carry the load meanwhile, and it is no worse after."""
    direction = -1 if c.home is Mode.MTP else 1
    load = forecast.load
    if c.here + direction not in allowed or load.queued > 0:
        return False
    now, then = c.fluid.mix(c.here), c.fluid.mix(c.here + direction)
    away = c.fluid.mix(c.here, 0 if c.terms.spare else direction).capacity
    carried = QUIET_SHARE * away if away > 0 else QUIET_ALONE_SHARE * now.capacity
    busy = load.demand > carried or load.in_system > carried / max(now.capacity, TINY) * now.slots
    return not busy and then.in_flight(load.demand) <= now.in_flight(load.demand) * (1 + c.settings.margin)


def after_move(c: Circumstances, weighing: Weighing, direction: int) -> Weighing:
    """The same load seen from the mix that one flip leads to, with the backlog that the absence leaves."""
    forecast = weighing.forecast
    there = c.here + direction
    queued = forecast.queued_after_flip(direction)
    fewest, most = min(c.candidates), max(c.candidates)
    candidates = tuple(sorted({there, c.here, fewest, most}))
    return weigh(replace(c, here=there, candidates=candidates), replace(forecast.load, queued=queued))
