"""The predictive rule, numbers only: memory and one sample in, memory and what is due out.

Every reachable mix is priced over the next hour (`forecast`); the price of the way back is added to a move; a mix that is
cheaper by the margin is due. The price of return is what the absence in a way back has cost lately, at the loads where the way
back would just be taken: a cheap flip at night must pay for the dear one in the morning. Since a night is longer than an hour,
the price shrinks by a share of what staying costs meanwhile, or a fleet that was in batch at a peak would stay there for ever. A
closed loop needs no learning: its way back is an absence at the load that is usual (`spell`).
"""

from dataclasses import dataclass, replace

from .forecast import TINY, Forecast
from .loop import UNDECIDED, LoopMemory, compare
from .regret import NO_REGRET, Regret, better_step
from .smoothing import FORGET_AFTER_TIME_CONSTANTS, smooth, weight
from .spell import FIRST_SPELL, Spell
from .wavering import NOTHING_SEEN, Lately, note_demand


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveSettings:
    """Constants of the rule.

    usual_stabilization_seconds: the policy.stabilization.down that the time constants are for; below it they shrink in proportion.
    demand_, in_system_, loop_, price_time_constant_seconds: of the smoothing of each. horizon_minutes: of the prediction, never scaled;
    horizon_flips: so many flips at least, where other replicas serve on meanwhile. margin: share by which a move must be cheaper.
    price_of_return: how much of it counts. price_within: in an open loop a price is learned where a step is dearer by less than this
    share; None: wherever it is dearer. regret: share of what staying costs that the price of the better move shrinks by. hard_wait_share:
    a queue that takes this share of gateway.queueTimeout to clear makes a due move wait for nothing; None: it always waits. refine:
    correct the curves by what replicas produce. spells: learn for how long a closed loop stays as it is; else it does for the whole
    horizon, its prices are learned with the others, and the loop's weight counts as it is. lost_by_clients: work lost counts as the share
    of the clients. dearest_absence: what the absence of a lone replica may cost at most that moves for its regret, in what an hour of
    staying costs.
    """

    usual_stabilization_seconds: float = 180.0
    demand_time_constant_seconds: float = 269.0
    in_system_time_constant_seconds: float = 86.6
    loop_time_constant_seconds: float = 1170.0
    price_time_constant_seconds: float = 1970.0
    horizon_minutes: float = 60.0
    horizon_flips: float = 15.0
    margin: float = 0.03
    price_of_return: float = 1.0
    price_within: float | None = 0.3
    regret: float = 0.5
    hard_wait_share: float | None = 0.5
    refine: bool = True
    spells: bool = True
    lost_by_clients: bool = False
    dearest_absence: float = 2.0


LONGEST_LOOK_SECONDS = 120.0  # that one sample stands for: after an absence it is no better than another


DEFAULT_SETTINGS = PredictiveSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """demand: tok/s, in_system: requests; smoothed, None before the first sample. lately: demand by the minute.

    price_to_batch, price_to_mtp: request-minutes of the way back from a step to that mode; None: not seen yet.
    """

    demand: float | None = None
    in_system: float | None = None
    loop: LoopMemory = UNDECIDED
    price_to_batch: float | None = None
    price_to_mtp: float | None = None
    spell: Spell = FIRST_SPELL
    lately: Lately = NOTHING_SEEN
    regret: Regret = NO_REGRET


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """best: the cheapest mix by itself, as a number of batch replicas. price: request-minutes of the way back from it.

    regret: request-minutes that staying has cost more so far, where they count for it. due: it is cheaper by the margin, price and
    regret in it.
    """

    best: int
    price: float
    due: bool
    regret: float = 0.0


def take(
    settings: PredictiveSettings,
    memory: Memory,
    *,
    demand: float,
    queued: float,
    in_system: float,
    elapsed_seconds: float | None,
    pace: float,
) -> Memory:
    """The memory with one sample in it.

    elapsed_seconds: since the sample before; None: there is none. pace: factor on every time constant.
    """

    known = elapsed_seconds is not None and elapsed_seconds <= FORGET_AFTER_TIME_CONSTANTS * settings.demand_time_constant_seconds * pace
    stands_for = min(elapsed_seconds, LONGEST_LOOK_SECONDS) if known and elapsed_seconds is not None else None

    def average(before: float | None, value: float, constant: float) -> float:
        return smooth(before, value, elapsed_seconds=stands_for, time_constant_seconds=constant * pace)

    return Memory(
        price_to_batch=memory.price_to_batch,
        price_to_mtp=memory.price_to_mtp,
        spell=memory.spell,
        lately=note_demand(memory.lately if known else NOTHING_SEEN, demand, elapsed_seconds=stands_for or 0.0),
        regret=memory.regret,
        demand=average(memory.demand, demand, settings.demand_time_constant_seconds),
        in_system=average(memory.in_system, in_system, settings.in_system_time_constant_seconds),
        loop=compare(
            memory.loop if known else replace(memory.loop, compared=None),
            in_system,
            queued,
            elapsed_seconds=elapsed_seconds or 0.0,
            time_constant_seconds=settings.loop_time_constant_seconds * pace,
            pace=pace,
        ),
    )


def choose(
    settings: PredictiveSettings, memory: Memory, here: int, costs: dict[int, float], missed: frozenset[int] = frozenset()
) -> Choice:
    """The best of the mixes that were priced, the present one (`here`) among them.

    missed: mixes that miss a latency target which another one meets; they are chosen by nobody, and the present one is left. Where that
        is all of them, targets tell nothing apart.
    """
    allowed = [k for k in costs if k not in missed] or list(costs)
    best = min(allowed, key=lambda k: (costs[k], abs(k - here), k))
    if best == here:
        return Choice(best=here, price=0.0, due=False)
    learned = memory.price_to_batch if best > here else memory.price_to_mtp
    price = settings.price_of_return * (learned or 0.0) * abs(best - here)
    due = here not in allowed or costs[best] + price < costs[here] * (1.0 - settings.margin) - TINY
    return Choice(best=best, price=price, due=due)


def choose_with_regret(settings: PredictiveSettings, memory: Memory, forecast: Forecast, costs: dict[int, float], choice: Choice) -> Choice:
    """The choice of a fleet whose next hour does not pay for a step, though what staying has cost so far does.

    costs: of the mixes that may be chosen, and of the present one.
    """
    here = forecast.batch
    if choice.best != here or memory.regret.batch != here:
        return choice
    step = better_step(forecast, settings.margin)
    there, regret = here + step, memory.regret.of(step)
    if step == 0 or regret <= 0 or there not in costs:
        return choice
    costs = forecast.at_least_as_lately().costs((here, there))
    if costs[there] > (1.0 + settings.dearest_absence) * costs[here]:
        return choice
    price = settings.price_of_return * ((memory.price_to_batch if step > 0 else memory.price_to_mtp) or 0.0)
    due = costs[there] + price - regret < costs[here] * (1.0 - settings.margin) - TINY
    return Choice(best=there, price=price, regret=regret, due=True) if due else choice


def learn_prices(
    settings: PredictiveSettings, memory: Memory, forecast: Forecast, costs: dict[int, float], *, elapsed_seconds: float | None, pace: float
) -> Memory:
    """Note what an absence costs at this load, for each step that is not worth taking now: so much would the way back from it cost."""
    constant = pace * settings.price_time_constant_seconds
    share = weight(min(elapsed_seconds or 0.0, pace * 3 * LONGEST_LOOK_SECONDS), constant)
    if settings.spells:
        share *= 1.0 - forecast.load.closed_weight
    here = costs[forecast.batch]
    most = float("inf") if settings.price_within is None else here * (1.0 + settings.price_within)
    found = {}
    for direction, before in ((-1, memory.price_to_mtp), (1, memory.price_to_batch)):
        cost = costs.get(forecast.batch + direction)
        if cost is not None and here < cost < most:
            price = forecast.opened_absence(direction) if settings.spells else forecast.absence(direction)
            before = price if before is None else before + share * (price - before)
        found[direction] = before
    return replace(memory, price_to_mtp=found[-1], price_to_batch=found[1])


def priced(memory: Memory, forecast: Forecast) -> Memory:
    """The memory with the prices of the way back for this kind of loop: learned ones, and those of clients that wait."""
    ahead, closed = forecast.terms.ahead, forecast.load.closed_weight
    if ahead is None or closed <= 0.0:
        return memory
    to_batch = (1.0 - closed) * (memory.price_to_batch or 0.0) + closed * forecast.closed_return(1, ahead)
    to_mtp = (1.0 - closed) * (memory.price_to_mtp or 0.0) + closed * forecast.closed_return(-1, ahead)
    return replace(memory, price_to_batch=to_batch, price_to_mtp=to_mtp)


def pay_off(
    settings: PredictiveSettings,
    memory: Memory,
    forecast: Forecast,
    costs: dict[int, float],
    choice: Choice,
    *,
    elapsed_seconds: float | None,
) -> Memory:
    """Let the price of a better move shrink by what staying has cost more since the sample before."""
    here = forecast.batch
    gain = costs[here] - costs[choice.best]
    if choice.due or gain <= settings.margin * costs[here]:
        return memory
    minutes = min(elapsed_seconds or 0.0, LONGEST_LOOK_SECONDS) / 60.0
    paid = settings.regret * gain * minutes / forecast.terms.horizon_minutes / abs(choice.best - here)
    if choice.best > here:
        return replace(memory, price_to_batch=max((memory.price_to_batch or 0.0) - paid, 0.0))
    return replace(memory, price_to_mtp=max((memory.price_to_mtp or 0.0) - paid, 0.0))
