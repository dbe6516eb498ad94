"""What a decision is made from and what it says, with a profile and without one alike."""

from dataclasses import dataclass
from datetime import datetime

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import Loop, PolicyState


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Replicas per mode."""

    mtp: int
    batch: int

    @property
    def total(self) -> int:
        return self.mtp + self.batch

    def count(self, mode: Mode) -> int:
        return self.mtp if mode is Mode.MTP else self.batch

    def moved(self, to: Mode) -> "Mix":
        """The mix after one replica has gone over to `to`."""
        step = 1 if to is Mode.MTP else -1
        return Mix(mtp=self.mtp + step, batch=self.batch - step)

    def __str__(self) -> str:
        return f"{self.mtp} mtp / {self.batch} batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSample:
    """One serving replica at one instant; rates in tokens/s."""

    slot: str
    mode: Mode
    digest: str
    running: float
    queued: float
    tokens_per_second: float
    slots: int  # effective max running requests
    slots_reported: bool = True  # by the engine; else those that are requested
    accept_length: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Load as the rule sees it, in words of policy.md.

    served_tokens_per_second is cut off at the cap, and above demand while a backlog clears; demand_tokens_per_second is arrivals × mean
    output when saturated.
    in_flight: requests that run in the engines. queued: requests that wait, in the engines and at the gateway.
    mean_output_tokens: of a request, as finished lately, or the spec's estimate.
    """

    at: datetime
    replicas: tuple[ReplicaSample, ...]
    served_tokens_per_second: float
    demand_tokens_per_second: float
    in_flight: float
    queued: float
    mean_output_tokens: float
    saturated: bool
    accept_length: float | None = None
    missing: tuple[str, ...] = ()  # serving pods without usable series: demand is then a lower bound
    contradicted: tuple[str, ...] = ()  # serving pods whose engines report a load far from that of their series
    scrape_interval_seconds: float = 0.0  # two looks within one interval are one sample


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDemand:
    """Metrics that cannot be trusted; `reason` from model.reasons. The answer is Hold."""

    reason: str
    message: str
    hang: bool = False  # running 0 with a queue: Degraded, never low load


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """What the guards look at beside demand."""

    mix: Mix  # desired modes of the slots
    replicas: int
    ready: int
    moving: str | None  # slot that is on its way, if any
    last_move_at: datetime | None
    moves_last_hour: int
    oldest_move_last_hour_at: datetime | None
    failed_modes: dict[Mode, datetime]  # mode → when its back-off ends
    gpus_free: int
    gpus_per_replica: int
    median_flip_seconds: float | None = None
    mtp_digest: str | None = None  # template digest that mtp replicas shall have now; None: taken from those that serve
    batch_digest: str | None = None  # the same of batch replicas
    expected_flip_seconds: float = 300.0  # that a replica serves nothing: median of the last flips, else drain and start-up as expected
    calibrating: str | None = None  # slot that is out of rotation to be measured
    last_move_to: Mode | None = None  # direction of the move of last_move_at; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class MixCost:
    """What one mix costs over `Outlook.horizon_seconds`, the way there included.

    request_minutes: as spec.workload.objective weighs them. feasible: meets the latency targets, or no mix does.
    """

    mix: Mix
    request_minutes: float
    feasible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the predictive rule sees ahead.

    demand_tokens_per_second, in_system: smoothed. queued, in_system: requests.
    loop_confidence: 0.5…1, that `loop` is the kind of load that is there.
    staying: the present mix. moves: each other mix that is looked at, one step and all the way, by rising number of batch replicas.
    price_of_return: request-minutes that the way back from the best move has cost lately; 0 where nothing moves.
    best: the cheapest mix with the price in it. draws_better: share of the draws of uncertain curves in which it stays cheaper
    than the present one; None: not asked, since nothing is due.
    batch_above, mtp_below: smoothed demand in tok/s above which a step to batch, below which a step to mtp, would pay; None: no load
    does, or it was not asked.
    """

    horizon_seconds: float
    demand_tokens_per_second: float
    queued: float
    in_system: float
    loop: Loop
    loop_confidence: float
    staying: MixCost
    moves: tuple[MixCost, ...]
    price_of_return: float
    best: Mix
    draws_better: float | None = None
    batch_above_tokens_per_second: float | None = None
    mtp_below_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Move one replica to `move_to`, or hold (None). `recommended` is the mix that the rule wants, guards aside.

    outlook: None where nothing was predicted: no calibration, no demand, or no explanation was asked for.
    """

    recommended: Mix
    move_to: Mode | None
    reason: str
    message: str
    would_change: str = ""
    state: PolicyState
    outlook: Outlook | None = None
