"""A fluid toy of a fleet: requests spread by least connections, rates by the published curves, one replica away per flip.

Curves: Qwen3.5-122B on 4 × RTX PRO 6000, as fitted in the policy design: 121.5 n^0.83 tok/s (mtp, 24 slots), 108 n^0.771
(batch, 68 slots) for n running requests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Decision, FleetState, Mix
from mtpilot.model.metrics import GatewayMetrics, MetricsView, PodMetrics
from mtpilot.model.slots import Pod, Slot
from mtpilot.policy.decide import decide
from mtpilot.policy.demand import observe
from mtpilot.simulate.decided import fleet_after
from tests.unit.policy.builders import pod, slot

START = datetime(2026, 12, 1, tzinfo=UTC)
SLOTS = {Mode.MTP: 24, Mode.BATCH: 68}
OUTPUT_TOKENS = 500.0
MTP_CAPACITY = 121.5 * 24**0.83


def rate(mode: Mode, running: float) -> float:
    if running <= 0:
        return 0.0
    return float(121.5 * running**0.83 if mode is Mode.MTP else 108 * running**0.771)


@cache
def pods_and_slots(modes: tuple[Mode, ...], ready: frozenset[int]) -> tuple[tuple[Pod, ...], tuple[Slot, ...]]:
    pods = tuple(pod(i, mode, ready=i in ready, ready_since=START) for i, mode in enumerate(modes))
    return pods, tuple(slot(i, mode) for i, mode in enumerate(modes))


@dataclass(slots=True)
class Replica:
    mode: Mode
    away_until: datetime | None = None
    running: float = 0.0
    mean_rate: float | None = None  # over the last minute, more or less


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    at: datetime
    to: Mode
    mix: Mix  # before


@dataclass(slots=True)
class ToyFleet:
    """closed: the load is a number of clients, else a rate of tokens asked for per second. profile: what the rule knows, if anything."""

    spec: InferenceServiceSpec
    modes: list[Mode]
    flip_seconds: float = 240.0
    closed: bool = False
    profile: Calibration | None = None
    explain: bool = True
    window_seconds: float = 60.0
    scrape_seconds: float = 10.0
    state: PolicyState = field(default_factory=PolicyState)
    now: datetime = START
    in_system: float = 0.0
    flips: list[Flip] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    replicas: list[Replica] = field(init=False)

    def __post_init__(self) -> None:
        self.replicas = [Replica(mode) for mode in self.modes]

    @property
    def mix(self) -> Mix:
        modes = [replica.mode for replica in self.replicas]
        return Mix(mtp=modes.count(Mode.MTP), batch=modes.count(Mode.BATCH))

    @property
    def queued(self) -> float:
        return max(self.in_system - sum(replica.running for replica in self.replicas), 0.0)

    def present(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.away_until is None]

    def present_indexes(self) -> list[int]:
        return [i for i, replica in enumerate(self.replicas) if replica.away_until is None]

    def spread(self) -> None:
        """Least connections: all run equally many, up to their slots."""
        left = self.in_system
        waiting = sorted(self.present(), key=lambda replica: SLOTS[replica.mode])
        for i, replica in enumerate(waiting):
            replica.running = min(left / (len(waiting) - i), float(SLOTS[replica.mode]))
            left -= replica.running

    def flow(self, load: float, seconds: float) -> None:
        passed = 0.0
        step = self.scrape_seconds / 2
        while passed < seconds - 1e-9:
            dt = min(step, seconds - passed)
            self.now += timedelta(seconds=dt)
            passed += dt
            for replica in self.replicas:
                if replica.away_until is not None and self.now >= replica.away_until:
                    replica.away_until = None
                    replica.mean_rate = None
            if self.closed:
                self.in_system = load
            self.spread()
            served = 0.0
            for replica in self.present():
                tokens = rate(replica.mode, replica.running)
                served += tokens
                before = replica.mean_rate
                replica.mean_rate = tokens if before is None else before + min(dt / (self.window_seconds / 2), 1.0) * (tokens - before)
            if not self.closed:
                self.in_system = max(self.in_system + (load - served) / OUTPUT_TOKENS * dt, 0.0)
            self.spread()

    def view(self, load: float) -> MetricsView:
        pods: dict[str, PodMetrics] = {}
        served = 0.0
        for i, replica in enumerate(self.replicas):
            mean = replica.mean_rate
            if replica.away_until is None and mean is not None:
                served += mean
                pods[f"uid-{i}"] = PodMetrics(
                    age_seconds=self.scrape_seconds / 3,
                    running=round(replica.running),
                    queued=0.0,
                    generation_tokens_per_second=mean,
                    requests_per_second=mean / OUTPUT_TOKENS,
                )
        arrivals = (served if self.closed else load) / OUTPUT_TOKENS
        return MetricsView(
            window_seconds=self.window_seconds,
            scrape_interval_seconds=self.scrape_seconds,
            pods=pods,
            gateway=GatewayMetrics(
                age_seconds=self.scrape_seconds / 3, in_flight=self.in_system, queued=round(self.queued), arrivals_per_second=arrivals
            ),
        )

    def fleet_state(self) -> FleetState:
        moving = next((f"chat-r{i}" for i, replica in enumerate(self.replicas) if replica.away_until is not None), None)
        moves = [(flip.at, flip.to) for flip in self.flips]
        return fleet_after(moves, self.now, self.mix, ready=len(self.present()), moving=moving, flip_seconds=self.flip_seconds)

    def tick(self, load: float, seconds: float = 10.0, damage: Callable[[MetricsView], MetricsView | None] | None = None) -> Decision:
        """Let `seconds` pass at this load, then look and decide."""
        self.flow(load, seconds)
        pods, slots = pods_and_slots(tuple(replica.mode for replica in self.replicas), frozenset(self.present_indexes()))
        metrics = self.view(load) if damage is None else damage(self.view(load))
        demand = observe(metrics, pods, slots, {}, self.spec, self.state, self.now)
        decision = decide(self.spec, demand, self.fleet_state(), self.state, self.now, self.profile, explain=self.explain)
        self.state = decision.state
        self.decisions.append(decision)
        if decision.move_to is not None:
            self.move(decision.move_to)
        return decision

    def move(self, to: Mode) -> None:
        self.flips.append(Flip(at=self.now, to=to, mix=self.mix))
        leaving = next(replica for replica in reversed(self.replicas) if replica.mode is to.other)
        leaving.mode = to
        leaving.away_until = self.now + timedelta(seconds=self.flip_seconds)
        leaving.running = 0.0
        leaving.mean_rate = None
