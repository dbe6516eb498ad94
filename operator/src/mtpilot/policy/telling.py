"""The weighing in words, and as the `Outlook` that status and `mtpilot explain` show."""

from collections.abc import Sequence

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import Loop
from mtpilot.model.decision import Demand, Mix, MixCost, Outlook

from .limits import LoadLimit
from .phrases import amount, count, empty_queue, percent, rate, span
from .weighing import Circumstances, Weighing

KNOWN_LOOP = 0.6  # below it the loop is as good as unknown


def mix_of(c: Circumstances, batch: int) -> Mix:
    return Mix(mtp=c.fluid.replicas - batch, batch=batch)


def outlook_of(c: Circumstances, weighing: Weighing, demand: Demand, limits: Sequence[LoadLimit], draws_better: float | None) -> Outlook:
    load, choice = weighing.forecast.load, weighing.choice
    worth = choice.due or weighing.costs[choice.best] + choice.price - choice.regret < weighing.costs[c.here]
    costs = {
        k: MixCost(mix=mix_of(c, k), request_minutes=cost, feasible=k not in weighing.missed) for k, cost in sorted(weighing.costs.items())
    }
    above = {limit.to: limit.value for limit in limits if not limit.closed and limit.above}
    below = {limit.to: limit.value for limit in limits if not limit.closed and not limit.above}
    return Outlook(
        horizon_seconds=60.0 * c.terms.horizon_minutes,
        demand_tokens_per_second=load.demand,
        queued=demand.queued,
        in_system=load.in_system,
        loop=Loop.CLOSED if load.closed_weight > 0.5 else Loop.OPEN,
        loop_confidence=max(load.closed_weight, 1.0 - load.closed_weight),
        staying=costs[c.here],
        moves=tuple(cost for k, cost in costs.items() if k != c.here),
        price_of_return=choice.price,
        best=mix_of(c, choice.best if worth else c.here),
        draws_better=draws_better,
        batch_above_tokens_per_second=above.get(Mode.BATCH),
        mtp_below_tokens_per_second=below.get(Mode.MTP),
    )


def costs_in_words(c: Circumstances, weighing: Weighing) -> str:
    """`next hour: staying 2.1k request-minutes, 2 mtp / 2 batch 1.9k + 0.4k for the way back`."""
    choice, costs = weighing.refused or weighing.choice, weighing.costs
    ahead = "next hour" if c.terms.horizon_minutes == 60 else f"next {span(60 * c.terms.horizon_minutes)}"
    text = f"{ahead}: staying {amount(costs[c.here])} request-minutes"
    shown = choice.best if choice.best != c.here else _second(weighing)
    if shown is None:
        return text
    text += f", {mix_of(c, shown)} {amount(costs[shown])}"
    if shown != choice.best:
        return text
    text += f" + {amount(choice.price)} for the way back"
    return f"{text} - {amount(choice.regret)} that staying has cost so far" if choice.regret > 0 else text


def _second(weighing: Weighing) -> int | None:
    others = [k for k in weighing.costs if k != weighing.here]
    return min(others, key=lambda k: (weighing.costs[k], abs(k - weighing.here), k), default=None)


def load_in_words(weighing: Weighing, demand: Demand) -> str:
    load = weighing.forecast.load
    sure = max(load.closed_weight, 1 - load.closed_weight)
    kind = (
        f"{'closed' if load.closed_weight > 0.5 else 'open'} loop ({percent(sure)} sure)" if sure >= KNOWN_LOOP else "open or closed loop"
    )
    text = f"demand {rate(load.demand)} ({rate(demand.demand_tokens_per_second)} now), {count(load.in_system)} requests in the system"
    return f"{text}, {count(demand.queued)} queued; {kind}"


def limits_in_words(c: Circumstances, limits: Sequence[LoadLimit], queued: float) -> str:
    """The loads that would move this fleet, for each direction that it can move in."""
    found = {limit.to: limit for limit in limits}
    reachable = {Mode.BATCH: max(c.candidates) > c.here, Mode.MTP: min(c.candidates) < c.here}
    parts = [
        f"to {mode}: {_limit_in_words(found.get(mode), queued)}" for mode in (Mode.BATCH, Mode.MTP) if _may_go(c, mode) and reachable[mode]
    ]
    return "; ".join(parts) or "another policy.minReplicas, or a profile with another verdict"


def _may_go(c: Circumstances, mode: Mode) -> bool:
    return c.home is None or c.home is mode


def _limit_in_words(limit: LoadLimit | None, queued: float) -> str:
    if limit is None:
        return "no load pays for the way back"
    if limit.above and limit.value == 0:
        return "any load"
    side = "above" if limit.above else "below"
    if limit.closed:
        return f"{side} {count(limit.value)} requests in the system"
    return f"demand {side} {rate(limit.value)} {empty_queue(queued)}"
