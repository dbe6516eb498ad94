"""Profile, kind of load, and what staying and each move would cost, in plain words from a status."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtpilot.api.inference_service import MixSpec
    from mtpilot.api.status import InferenceServiceStatus, MixCostStatus, OutlookStatus

_EVEN = 0.6  # confidence below which neither kind of load is worth naming
_LOOPS = {
    "Open": "an open loop: arrivals go on whatever happens",
    "Closed": "a closed loop: clients wait for their answers, so a slow fleet loses work and the queue stays as long as it is",
}


def loop_lines(status: "InferenceServiceStatus") -> list[str]:
    """Which kind of load it is."""
    loop = status.loop
    if loop is None:
        return []
    confidence = float(loop.confidence)
    if confidence < _EVEN:
        return ["Open or closed loop: not known yet; both are reckoned with."]
    return [f"It behaves like {_LOOPS[loop.kind]} ({confidence:.0%} sure)."]


def profile_lines(status: "InferenceServiceStatus") -> list[str]:
    """What is decided by."""
    profile = status.profile
    if profile is None:
        return []
    remedy = [f"{profile.first_remedy[0].upper()}{profile.first_remedy[1:]}."] if profile.first_remedy else []
    if profile.name is None:
        return [f"Two thresholds on demand, since there is no usable profile: {profile.message}.", *remedy]
    crossover = (
        f"{profile.above or 'batch'} is better above {profile.crossover} requests at one replica"
        + (f" (bound by {profile.bound.lower()})" if profile.bound else "")
        if profile.crossover is not None
        else "the modes do not cross"
    )
    return [
        f"Profile {profile.name}, {profile.context_tokens} tokens of context: {crossover}; verdict {profile.verdict}.",
        f"Chosen: {profile.message}.",
        *remedy,
    ]


def calibration_lines(status: "InferenceServiceStatus") -> list[str]:
    """How far the operator's own measurement is."""
    calibration = status.calibration
    if calibration is None:
        return []
    where = f" on {calibration.slot}" if calibration.slot is not None else ""
    measured = f", {calibration.done} of {calibration.total} batches of the modes begun" if calibration.total else ""
    left = f", {calibration.time_left} left for {calibration.mode}" if calibration.time_left is not None else ""
    return [f"Request {calibration.request_id}: {calibration.phase}{where}{measured}{left}: {calibration.message}."]


def cost_lines(status: "InferenceServiceStatus") -> list[str]:
    """What staying and each move would cost, cheapest first after staying."""
    outlook = status.decision.outlook if status.decision is not None else None
    if outlook is None:
        return []
    stay = float(outlook.staying.request_minutes)
    lines = [f"Over the next {outlook.horizon}{_begin(status)}, in request-minutes (requests in the system × time):"]
    lines.append(f"  staying at {mix(outlook.staying.mix)}: {count(stay)}{_feasible(outlook.staying)}")
    moves = sorted(outlook.moves, key=lambda move: float(move.request_minutes))
    lines += [f"  to {mix(move.mix)}: {_compared(move, stay)}{_feasible(move)}" for move in moves]
    lines.append(f"  coming back has cost {count(float(outlook.price_of_return))} lately, which a move must earn as well")
    lines += [f"Cheapest with that in it: {mix(outlook.best)}{_too_little(status)}{_sure(outlook)}."]
    return lines


def _begin(status: "InferenceServiceStatus") -> str:
    """The load that is looked at: the smoothed one, which goes on for minutes after requests have ended."""
    smoothed = status.policy.smoothed_tokens_per_second
    if smoothed is None:
        return ""
    now = f" ({count(float(status.demand.output_tokens_per_second))} now)" if status.demand is not None else ""
    return f" from a smoothed demand of {count(round(float(smoothed)))} output tokens/s{now}"


def _too_little(status: "InferenceServiceStatus") -> str:
    decision = status.decision
    if decision is None or decision.outlook is None or decision.reason != "StayingIsCheaper":
        return ""
    return "" if decision.outlook.best == decision.outlook.staying.mix else ", by less than a move must gain, so the mix stays"


def load_lines(status: "InferenceServiceStatus") -> list[str]:
    """The loads that would change the answer, unless it says so itself: a guard speaks of time or room."""
    decision = status.decision
    outlook = decision.outlook if decision is not None else None
    if decision is None or outlook is None or "demand" in (decision.would_change or ""):
        return []
    above, below = outlook.batch_above_tokens_per_second, outlook.mtp_below_tokens_per_second
    lines = [f"Demand above {count(float(above))} output tokens/s: a step to batch would pay."] if above is not None else []
    return lines + ([f"Demand below {count(float(below))} output tokens/s: a step to mtp would pay."] if below is not None else [])


def mix(found: "MixSpec") -> str:
    return f"{found.mtp} mtp / {found.batch} batch"


def count(value: float) -> str:
    """A number with thousands apart; decimals only where they are all there is."""
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _compared(move: "MixCostStatus", stay: float) -> str:
    cost = float(move.request_minutes)
    return f"{count(cost)} ({cost / stay - 1:+.0%})" if stay > 0 else count(cost)


def _feasible(cost: "MixCostStatus") -> str:
    return "" if cost.feasible else ", but it misses workload.targets"


def _sure(outlook: "OutlookStatus") -> str:
    if outlook.draws_better is None:
        return ""
    return f", better than staying in {float(outlook.draws_better):.0%} of the draws of the uncertain curves"
