"""A fleet on the fluid model, driven through `decide` in ticks of any length: what the rule predicts with is also what happens.

Where `truth` differs from the profile, the rule is wrong and has to find out.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import PolicyState
from mtpilot.curves.curve import CurvePair
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import Decision, Demand, FleetState, Mix, NoDemand, ReplicaSample
from mtpilot.model.reasons import Reason
from mtpilot.policy.decide import decide
from mtpilot.policy.fluid import fluid_fleet
from mtpilot.simulate.decided import fleet_after
from mtpilot.simulate.driver import Site
from mtpilot.simulate.sharing import Sharing
from tests.unit.policy.builders import PAIR, calibration, spec

START = datetime(2026, 12, 1, tzinfo=UTC)
FREE = {"minDwell": "0s", "maxFlipsPerHour": 120}


@dataclass
class FluidWorld:
    """closed: a load is a number of clients, else tok/s. seed: of the noise of arrivals; None: there is none."""

    replicas: int = 2
    batch: int = 0
    truth: CurvePair = PAIR
    profile: Calibration | None = field(default_factory=calibration)
    closed: bool = False
    seed: int | None = None
    tick_seconds: float = 60.0
    flip_seconds: float = 240.0
    output_tokens: float = 1000.0
    policy: dict[str, object] = field(default_factory=lambda: dict(FREE))
    state: PolicyState = field(default_factory=PolicyState)
    now: datetime = START
    queued: float = 0.0
    request_minutes: float = 0.0
    moves: list[tuple[datetime, Mode]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spec: InferenceServiceSpec = spec(replicas=self.replicas, policy=self.policy, rollout={"allowDowntime": True})
        self._fleet = fluid_fleet(self.truth, self.replicas)
        self._sharing = Sharing(Site(curves=self.truth, replicas=self.replicas, flip_minutes=4, output_tokens=self.output_tokens))
        self._noise = None if self.seed is None else np.random.default_rng(self.seed)
        self._away: tuple[datetime, Mode] | None = None
        self.decision: Decision | None = None

    @property
    def mix(self) -> Mix:
        """As it shall be: a replica on its way counts as arrived."""
        return Mix(mtp=self.replicas - self.batch, batch=self.batch)

    @property
    def mtp_capacity(self) -> float:
        return self._fleet.mix(0).capacity

    def serving(self) -> tuple[int, int]:
        """(mtp, batch) replicas that serve."""
        mtp, batch = self.mix.mtp, self.mix.batch
        if self._away is None:
            return mtp, batch
        return (mtp - 1, batch) if self._away[1] is Mode.MTP else (mtp, batch - 1)

    def tick(self, load: float, *, decides: bool = True) -> None:
        """decides: False: the mix stays as it is."""
        self.now += timedelta(seconds=self.tick_seconds)
        demand = self._flow(load)
        if self._away is not None and self.now >= self._away[0]:
            self._away = None
        if not decides:
            return
        decision = self.decision = decide(self.spec, demand, self._fleet_state(), self.state, self.now, self.profile, explain=False)
        self.state = decision.state
        if decision.move_to is not None:
            self.moves.append((self.now, decision.move_to))
            self.batch += 1 if decision.move_to is Mode.BATCH else -1
            self._away = (self.now + timedelta(seconds=self.flip_seconds), decision.move_to)

    def live(self, load: float, minutes: float) -> None:
        for _ in range(round(minutes * 60 / self.tick_seconds)):
            self.tick(load)

    def _flow(self, load: float) -> Demand | NoDemand:
        mtp, batch = self.serving()
        table = self._fleet.of(mtp, batch)
        per_token = 60 / self.output_tokens
        minutes = self.tick_seconds / 60
        if self.closed:
            served = arriving = table.rate(load)
            self.queued = max(load - table.slots, 0.0)
        else:
            arriving = load if self._noise is None else self._noise.poisson(load * per_token * minutes) / per_token / minutes
            before = self.queued
            self.queued = table.flow(arriving, before, minutes, per_token)[2]
            served = min(arriving + (before - self.queued) / per_token / minutes, table.capacity)
        running = min(load, table.slots) if self.closed else table.in_flight(served)
        self.request_minutes += (running + self.queued) * minutes
        if mtp + batch == 0:
            return NoDemand(reason=Reason.NO_READY_REPLICA, message="nobody serves")
        return Demand(
            at=self.now,
            replicas=self._samples(mtp, batch, running),
            served_tokens_per_second=served,
            demand_tokens_per_second=arriving if self.queued > 0 else served,
            in_flight=running,
            queued=self.queued,
            mean_output_tokens=self.output_tokens,
            saturated=self.queued > 0,
            accept_length=self.truth.accept_length if mtp else None,
            scrape_interval_seconds=self.tick_seconds / 2,
        )

    def _samples(self, mtp: int, batch: int, running: float) -> tuple[ReplicaSample, ...]:
        shares = self._sharing.of(mtp, batch, running)
        return tuple(
            ReplicaSample(
                slot=f"{mode}-{i}",
                mode=mode,
                digest=mode.value,
                running=share[0],
                queued=0.0,
                tokens_per_second=share[1],
                slots=int(self.truth.of(mode).slots),
                accept_length=self.truth.accept_length if mode is Mode.MTP else None,
            )
            for mode, count, share in ((Mode.MTP, mtp, shares[0]), (Mode.BATCH, batch, shares[1]))
            for i in range(count)
        )

    def _fleet_state(self) -> FleetState:
        moving = None if self._away is None else "chat-r0"
        return fleet_after(self.moves, self.now, self.mix, ready=sum(self.serving()), moving=moving, flip_seconds=self.flip_seconds)
