"""The guards: a chain of named checks on one proposed move. The first violation wins and its name is the decision's reason.

What time alone cannot change stands before what it can: "nothing is left to move" is a better answer than "wait until
12:03" when nothing will happen at 12:03. A prediction comes only after the fleet is whole enough to predict for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, PolicySpec, RolloutStrategy
from mtpilot.model.decision import FleetState
from mtpilot.model.reasons import Reason

from .assess import Assessment
from .bounds import batch_bounds
from .phrases import clock, count, percent, rate, span
from .strategy import feasible_strategy, why_infeasible
from .timing import seconds

PEERS_SHARE = 0.85  # of their capacity, while a replica is away
DEFAULT_MIN_DWELL: str = PolicySpec.model_fields["min_dwell"].default
DEFAULT_FLIPS_PER_HOUR: int = PolicySpec.model_fields["max_flips_per_hour"].default


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One replica shall go over to `to`. assessment: None where no demand is looked at (Pinned). See `Advice` for the rest."""

    spec: InferenceServiceSpec
    fleet: FleetState
    now: datetime
    to: Mode
    assessment: Assessment | None = None
    forced: bool = False
    overloaded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    reason: Reason
    message: str
    would_change: str


Check = Callable[[Proposal], Violation | None]


def first_violation(chain: Sequence[Check], proposal: Proposal) -> Violation | None:
    return next((violation for check in chain if (violation := check(proposal)) is not None), None)


def one_move_in_flight(p: Proposal) -> Violation | None:
    if p.fleet.calibrating is not None:
        return Violation(
            reason=Reason.CALIBRATING,
            message=f"{p.fleet.calibrating} is out of rotation to be measured",
            would_change="the calibration ends, or demand needs the replica",
        )
    if p.fleet.moving is None:
        return None
    return Violation(
        reason=Reason.MOVE_IN_FLIGHT,
        message=f"{p.fleet.moving} is on its way",
        would_change=f"{p.fleet.moving} serves again, or is rolled back",
    )


def something_left(p: Proposal) -> Violation | None:
    if p.fleet.mix.count(p.to.other) > 0:
        return None
    more = "more replicas" if p.to is Mode.BATCH else "nothing"
    text = f"all {p.fleet.mix.total} replicas are {p.to} already"
    return Violation(reason=Reason.ALL_REPLICAS_THERE, message=text, would_change=more)


def min_replicas(p: Proposal) -> Violation | None:
    """A fleet that is outside the bounds already may move towards them."""
    before, after = p.fleet.mix, p.fleet.mix.moved(p.to)
    fewest, most = batch_bounds(p.spec, after.total)

    def outside(batch: int) -> int:
        return max(fewest - batch, batch - most, 0)

    if outside(after.batch) <= outside(before.batch):
        return None
    leaving = p.to.other
    least = p.spec.policy.min_replicas.mtp if leaving is Mode.MTP else p.spec.policy.min_replicas.batch
    return Violation(
        reason=Reason.MIN_REPLICAS,
        message=f"policy.minReplicas keeps {least} {leaving} replicas",
        would_change=f"a smaller policy.minReplicas.{leaving}, or more replicas",
    )


def min_dwell(p: Proposal) -> Violation | None:
    """Against flapping: a move in the direction of the last one only waits until that one is over."""
    if p.fleet.last_move_at is None or p.fleet.last_move_to is p.to:
        return None
    dwell = dwell_seconds(p.spec, p.fleet)
    over = p.fleet.last_move_at + timedelta(seconds=dwell)
    if p.now >= over:
        return None
    return Violation(
        reason=Reason.MIN_DWELL,
        message=f"the last move was at {clock(p.fleet.last_move_at)}, less than {span(dwell)} ago",
        would_change=f"after {clock(over)} (minDwell)",
    )


def dwell_seconds(spec: InferenceServiceSpec, fleet: FleetState) -> float:
    """`policy.minDwell`; where it is the default, at least twice the usual time of a flip."""
    dwell = seconds(spec.policy.min_dwell)
    if spec.policy.min_dwell == DEFAULT_MIN_DWELL and fleet.median_flip_seconds is not None:
        return max(dwell, 2 * fleet.median_flip_seconds)
    return dwell


def flips_per_hour(spec: InferenceServiceSpec, replicas: int) -> int:
    """`policy.maxFlipsPerHour`; where it is the default, at least enough for every replica to go over once."""
    most = spec.policy.max_flips_per_hour
    return max(most, replicas) if most == DEFAULT_FLIPS_PER_HOUR else most


def flip_budget(p: Proposal) -> Violation | None:
    most = flips_per_hour(p.spec, p.fleet.replicas)
    if p.fleet.moves_last_hour < most:
        return None
    oldest = p.fleet.oldest_move_last_hour_at
    when = f"after {clock(oldest + timedelta(hours=1))}" if oldest is not None and most > 0 else "a larger policy.maxFlipsPerHour"
    return Violation(
        reason=Reason.FLIP_BUDGET_SPENT,
        message=f"{p.fleet.moves_last_hour} flips in the last hour, policy.maxFlipsPerHour allows {most}",
        would_change=f"{when} (maxFlipsPerHour)" if when.startswith("after") else when,
    )


def ready_quorum(p: Proposal) -> Violation | None:
    """Half of the replicas is enough: to wait for all of them is slow in exactly the hard moment."""
    if p.fleet.ready >= 1 and 2 * p.fleet.ready >= p.fleet.replicas:
        return None
    return Violation(
        reason=Reason.REPLICAS_NOT_READY,
        message=f"only {p.fleet.ready} of {p.fleet.replicas} replicas are ready",
        would_change=f"{max((p.fleet.replicas + 1) // 2, 1)} ready replicas",
    )


def stays_moved(p: Proposal) -> Violation | None:
    """The state after the move must stay inside the same limits that the move was made for."""
    a = p.assessment
    if a is None or p.forced:
        return None
    if p.to is Mode.MTP:
        if a.up_limit is None or a.highest <= a.up_limit:
            return None
        text, change = f"demand of {rate(a.highest)} would be above {rate(a.up_limit)} after the move", f"demand below {rate(a.up_limit)}"
    elif a.down_limit is None:
        if a.any_full:
            return None
        text, change = "requests wait, but every replica has free slots: more slots are no remedy", "a full replica"
    else:
        if a.all_full or a.highest >= a.down_limit:
            return None
        text = f"requests wait, but demand of {rate(a.highest)} is below {rate(a.down_limit)} and replicas have free slots"
        change = f"demand above {rate(a.down_limit)}, or every replica full"
    return Violation(reason=Reason.WOULD_MOVE_BACK, message=text, would_change=change)


def peers_keep_up(p: Proposal) -> Violation | None:
    """While the replica is away, the others stay below 0.85 of their capacity, unless the move is the remedy for overload."""
    a = p.assessment
    peers = p.fleet.ready - 1
    if a is None or p.overloaded or peers < 1 or feasible_strategy(p.spec, p.fleet) is RolloutStrategy.SURGE:
        return None
    if a.capacity is not None:
        load, room, shown = a.highest, a.capacity * peers, f"demand of {rate(a.highest)}"
        limit = rate(PEERS_SHARE * room)
    else:
        load, room = a.in_flight + a.queued, float(a.mtp_slots * peers) / max(a.replicas, 1)
        shown, limit = f"{count(load)} requests", f"{count(PEERS_SHARE * room)} requests"
    if load <= PEERS_SHARE * room:
        return None
    return Violation(
        reason=Reason.PEERS_TOO_BUSY,
        message=f"{shown} is more than {percent(PEERS_SHARE)} of what {peers} peers can do while one replica is away",
        would_change=f"load below {limit}",
    )


def strategy_feasible(p: Proposal) -> Violation | None:
    if feasible_strategy(p.spec, p.fleet) is not None:
        return None
    reason, message, would_change = why_infeasible(p.spec, p.fleet)
    return Violation(reason=reason, message=message, would_change=would_change)


def no_back_off(p: Proposal) -> Violation | None:
    until = p.fleet.failed_modes.get(p.to)
    if until is None or p.now >= until:
        return None
    return Violation(
        reason=Reason.FLIP_FAILED_BACK_OFF,
        message=f"the last replica that went over to {p.to} did not become ready",
        would_change=f"after {clock(until)}, or another {p.to} template",
    )


AUTO_CHAIN: tuple[Check, ...] = (
    one_move_in_flight,
    something_left,
    min_replicas,
    min_dwell,
    flip_budget,
    ready_quorum,
    stays_moved,
    peers_keep_up,
    strategy_feasible,
    no_back_off,
)

# Where the way is predicted, with the replica away and from the mix after it, the rule has asked what the two guards that stand in
# for a prediction would ask: in the cells of docs/decision.md they never stopped a move that was due.
PREDICTED_CHAIN: tuple[Check, ...] = tuple(check for check in AUTO_CHAIN if check not in (stays_moved, peers_keep_up))

PINNED_CHAIN: tuple[Check, ...] = (one_move_in_flight, strategy_feasible, no_back_off)
