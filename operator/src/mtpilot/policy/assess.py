"""Take one observation into the policy state, and put the numbers side by side that the rule without a profile compares."""

from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.decision import Demand, FleetState

from .capacity import Learned, has_no_room, is_full, learn, recall, template_in_force
from .phrases import count, percent, rate
from .sampling import sample
from .smoothing import FORGET_AFTER_TIME_CONSTANTS, smooth, time_constant_seconds
from .timing import decimal, number


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
    constant = time_constant_seconds(spec)
    sampling = sample(demand, state, now, forget_after_seconds=max(FORGET_AFTER_TIME_CONSTANTS * constant, 60.0))
    if not sampling.fresh:
        after = state.model_copy(update=sampling.fields) if sampling.fields else state
        return after, _assess(spec, demand, fleet, after, recall(state, template), sampling.frozen)
    smoothed = smooth(
        number(state.smoothed_tokens_per_second),
        demand.demand_tokens_per_second,
        elapsed_seconds=sampling.elapsed_seconds,
        time_constant_seconds=constant,
    )
    learned = learn(recall(state, template), demand, template, spec, sampling.elapsed_seconds)
    value = learned.tokens_per_second
    after = state.model_copy(
        update={
            **sampling.fields,
            "smoothed_tokens_per_second": decimal(smoothed),
            "mtp_capacity_tokens_per_second": None if value is None else decimal(value),
            "mtp_capacity_template": learned.template,
        }
    )
    return after, _assess(spec, demand, fleet, after, learned, sampling.frozen)


def _assess(  # noqa: PLR0917 - what a tick has
    spec: InferenceServiceSpec, demand: Demand, fleet: FleetState, state: PolicyState, learned: Learned, frozen: tuple[str, ...]
) -> Assessment:
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
        frozen=frozen,
    )
