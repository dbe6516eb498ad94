"""Take one observation into the policy state, and put the numbers side by side that the rule and the guards compare.

Looks that come faster than the scrapes see the same sample again: they count once, whatever woke the caller.
"""

from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, FleetState

from .capacity import Learned, has_no_room, is_full, learn, recall, template_in_force
from .phrases import count, percent, rate
from .smoothing import FORGET_AFTER_TIME_CONSTANTS, smooth, time_constant_seconds
from .timing import decimal, from_text, number, to_text

QUEUED_SAMPLES_KEPT = 10
CONTRADICTED_SAMPLES_TO_HOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Demand against what the fleet could do if every replica were mtp; rates in tok/s.

    smoothed, current: demand, averaged and of the last sample. capacity: of one mtp replica, None while unknown.
    all_full, any_full: replicas without room for one more request, of either mode.
    mtp_slots: running requests that the whole fleet has room for in mtp mode.
    frozen: replicas whose series stand still: nothing is known of the load.
    """

    replicas: int
    smoothed: float
    current: float
    capacity: float | None
    up_share: float
    down_share: float
    in_flight: float
    queued: float
    queued_samples: int
    all_full: bool
    any_full: bool
    any_mtp_full: bool
    mtp_slots: int
    missing: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()

    @property
    def fleet_capacity(self) -> float | None:
        return None if self.capacity is None else self.capacity * self.replicas

    @property
    def up_limit(self) -> float | None:
        return None if self.fleet_capacity is None else self.fleet_capacity * self.up_share

    @property
    def down_limit(self) -> float | None:
        return None if self.fleet_capacity is None else self.fleet_capacity * self.down_share

    @property
    def highest(self) -> float:
        return max(self.smoothed, self.current)

    @property
    def lowest(self) -> float:
        return min(self.smoothed, self.current)

    def __str__(self) -> str:
        text = f"demand {rate(self.smoothed)} ({rate(self.current)} now)"
        if self.capacity is None or self.fleet_capacity is None:
            text += ", mtp capacity not seen yet"
        elif self.capacity > 0:
            share = percent(self.smoothed / self.fleet_capacity)
            text += f" is {share} of the mtp capacity {rate(self.fleet_capacity)} ({self.replicas} × {rate(self.capacity)})"
        text += f"; {count(self.in_flight)} in flight, {count(self.queued)} queued"
        return f"{text}; {len(self.missing)} replicas without series" if self.missing else text


def advance(
    spec: InferenceServiceSpec, demand: Demand, fleet: FleetState, state: PolicyState, now: datetime
) -> tuple[PolicyState, Assessment]:
    """The state with this sample in it, and the numbers. A sample that was taken before changes nothing but the numbers."""
    template = template_in_force(demand, fleet, state.mtp_capacity_template)
    observed = from_text(state.observed_at)
    elapsed = (now - observed).total_seconds() if observed is not None and observed <= now else None
    if elapsed is not None and elapsed < 0.9 * demand.scrape_interval_seconds:
        return state, _assess(spec, demand, fleet, state, recall(state, template))
    contradicted = min(state.contradicted_samples + 1, CONTRADICTED_SAMPLES_TO_HOLD) if demand.contradicted else 0
    if contradicted == CONTRADICTED_SAMPLES_TO_HOLD:
        after = state.model_copy(update={"contradicted_samples": contradicted, "observed_at": to_text(now)})
        return after, _assess(spec, demand, fleet, after, recall(state, template))
    constant = time_constant_seconds(spec)
    smoothed = smooth(
        number(state.smoothed_tokens_per_second),
        demand.demand_tokens_per_second,
        elapsed_seconds=elapsed,
        time_constant_seconds=constant,
    )
    forgotten = elapsed is None or elapsed > max(FORGET_AFTER_TIME_CONSTANTS * constant, 60.0)
    queued_before = 0 if forgotten else state.queued_samples
    learned = learn(recall(state, template), demand, template, spec, elapsed)
    value = learned.tokens_per_second
    after = state.model_copy(
        update={
            "smoothed_tokens_per_second": decimal(smoothed),
            "mtp_capacity_tokens_per_second": None if value is None else decimal(value),
            "mtp_capacity_template": learned.template,
            "queued_samples": min(queued_before + 1, QUEUED_SAMPLES_KEPT) if demand.queued > 0 else 0,
            "contradicted_samples": contradicted,
            "observed_at": to_text(now),
        }
    )
    return after, _assess(spec, demand, fleet, after, learned)


def _assess(spec: InferenceServiceSpec, demand: Demand, fleet: FleetState, state: PolicyState, learned: Learned) -> Assessment:
    replicas = fleet.mix.total or fleet.replicas
    smoothed = number(state.smoothed_tokens_per_second)
    no_room = [has_no_room(spec, sample) for sample in demand.replicas]
    effective = [sample.slots for sample in demand.replicas if sample.mode is Mode.MTP]
    return Assessment(
        replicas=replicas,
        smoothed=demand.demand_tokens_per_second if smoothed is None else smoothed,
        current=demand.demand_tokens_per_second,
        capacity=learned.known,
        up_share=float(spec.policy.thresholds.up),
        down_share=float(spec.policy.thresholds.down),
        in_flight=demand.in_flight,
        queued=demand.queued,
        queued_samples=state.queued_samples,
        all_full=bool(no_room) and all(no_room),
        any_full=any(no_room),
        any_mtp_full=any(sample.mode is Mode.MTP and is_full(spec, sample) for sample in demand.replicas),
        mtp_slots=replicas * (min(effective) if effective else spec.modes.mtp.max_running_requests),
        missing=demand.missing,
        frozen=demand.contradicted if state.contradicted_samples >= CONTRADICTED_SAMPLES_TO_HOLD else (),
    )
