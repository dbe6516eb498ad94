"""What a policy answers: the interface that every rule has, the uncalibrated one and the predictive one alike."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState


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
    accept_length: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Load as the rule sees it, in words of policy.md.

    served_tokens_per_second is censored at the cap; demand_tokens_per_second is not (arrivals × mean output when saturated).
    in_flight: requests that run in the engines. queued: requests that wait, in the engines and at the gateway.
    """

    at: datetime
    replicas: tuple[ReplicaSample, ...]
    served_tokens_per_second: float
    demand_tokens_per_second: float
    in_flight: float
    queued: float
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Move one replica to `move_to`, or hold (None). `recommended` is the mix that the rule wants, guards aside."""

    recommended: Mix
    move_to: Mode | None
    reason: str
    message: str
    would_change: str = ""
    state: PolicyState


class Rule(Protocol):
    """demand, fleet, previous state, now → Decision. Pure and deterministic."""

    def __call__(
        self, *, spec: InferenceServiceSpec, demand: Demand | NoDemand, fleet: FleetState, state: PolicyState, now: datetime
    ) -> Decision: ...
