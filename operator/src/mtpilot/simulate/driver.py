"""Replay: one policy on one fleet under one load, minute by minute, on the fluid model that also decides.

What waits is carried over, a replica that changes its mode serves nothing meanwhile, and a policy sees at the end of each
minute what a scrape would show it. Open load is judged by request-minutes (the requests in the system summed over time: by
Little's law the total latency), closed load by tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mtpilot.api.inference_service import Mode
from mtpilot.curves.curve import CurvePair
from mtpilot.policy.fluid import FluidFleet, MixTable

from .loads import Load
from .traces import SECONDS_PER_MINUTE, Floats

LEFTOVER_MINUTES = 5.0  # that each request which still waits at the end of an open load is charged
REPORT_EVERY_MINUTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A fleet: `replicas` of one pair of curves; a flip takes one of them away for `flip_minutes`.

    output_tokens: of a request, in the mean.
    """

    curves: CurvePair
    replicas: int
    flip_minutes: int
    output_tokens: float


def flip_minutes(seconds: float) -> int:
    """Whole minutes that a flip of so many seconds takes in a replay: what was begun is lost."""
    return max(ceil(seconds / SECONDS_PER_MINUTE), 1)


class Moment(NamedTuple):
    """What can be seen at the end of a minute; rates in tok/s.

    batch: replicas in batch mode or on their way to it. serving_batch, serving_mtp: those that served in this minute.
    moving: a replica is on its way. arriving: tokens asked for; of a closed load, what was served. queued: at the minute's end.
    """

    minute: int
    batch: int
    serving_batch: int
    serving_mtp: int
    moving: bool
    arriving: float
    served: float
    running: float
    queued: float
    in_system: float


class Steering(Protocol):
    """A policy at work in one run.

    batch: replicas in batch mode at the start. why: of the last move, in a word or a sentence.
    """

    @property
    def batch(self) -> int: ...

    @property
    def why(self) -> str: ...

    def move(self, moment: Moment) -> Mode | None:
        """The mode that one replica shall go over to from the next minute on; ignored while one is on its way."""
        ...


class Policy(Protocol):
    """Who decides. It keeps nothing of a run: that is in what `begin` returns."""

    @property
    def name(self) -> str: ...

    def curves(self, pair: CurvePair) -> CurvePair:
        """What the replicas do under this policy: `pair` itself, unless the policy needs another kind of replica."""
        ...

    def begin(self, site: Site) -> Steering: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One replica went over to `to`, from the end of `minute` on."""

    minute: int
    to: Mode
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What happened; each array has one entry for a minute.

    batch: replicas in batch mode, the moving one in its old mode. away: one is on its way.
    served: tok/s. running, queued, in_system: requests, queued at the end of the minute.
    """

    policy: str
    site: Site
    load: Load
    moves: tuple[Move, ...]
    batch: NDArray[np.int16]
    away: NDArray[np.bool_]
    served: Floats
    running: Floats
    queued: Floats
    in_system: Floats

    @property
    def flips(self) -> int:
        return len(self.moves)

    @property
    def request_minutes(self) -> float:
        """Requests in the system summed over the minutes, with what is left at the end."""
        return float(self.in_system.sum() + self.queued[-1] * LEFTOVER_MINUTES)

    @property
    def tokens(self) -> float:
        return float(self.served.sum() * SECONDS_PER_MINUTE)


def drive(site: Site, load: Load, policy: Policy, progress: Callable[[int], None] | None = None, *, before: Load | None = None) -> Run:
    """Run one policy.

    progress: called now and then with the minutes done since the last call.
    before: what the fleet served until the load begins: it is played and not counted. What the policy remembers, the mix and a replica
        that is on its way stay; what waits is dropped, so that every policy begins with an empty queue.
    """
    track = _Track(site, load, policy)
    if before is not None:
        track.warm_up(before)
    for minute, value in enumerate(load.values.tolist()):
        track.minute(minute, value)
        if progress is not None and minute % REPORT_EVERY_MINUTES == 0:
            progress(min(REPORT_EVERY_MINUTES, load.minutes - minute))
    return track.end()


class _Track:
    """A run under way."""

    def __init__(self, site: Site, load: Load, policy: Policy) -> None:
        self.site, self.load, self.policy = site, load, policy
        self.fleet = FluidFleet(policy.curves(site.curves), site.replicas, by_latency=False)
        self.flow = _closed if load.closed else _open
        self.per_token = SECONDS_PER_MINUTE / site.output_tokens
        self.steering = policy.begin(site)
        self.batch = self.steering.batch
        self.left, self.step = 0, 0  # minutes until the moving replica serves again; 1 it goes to batch, -1 to mtp
        self.queued = 0.0
        self.moves: list[Move] = []
        self.rows: list[tuple[int, bool, float, float, float, float]] = []

    def warm_up(self, before: Load) -> None:
        """Play what came before, in minutes below 0."""
        for minute, value in enumerate(before.values.tolist(), start=-before.minutes):
            self.minute(minute, value)
        self.queued = 0.0
        self.moves.clear()
        self.rows.clear()

    def minute(self, minute: int, value: float) -> None:
        away = self.left > 0
        batch = self.batch - (away and self.step < 0)
        mtp = self.site.replicas - batch - away
        served, running, self.queued, in_system = self.flow(self.fleet.of(mtp, batch), value, self.queued, self.per_token)
        self.rows.append((self.batch, away, served, running, self.queued, in_system))
        if away:
            self.left -= 1
            if not self.left:
                self.batch += self.step
        moving = self.left > 0
        heading = self.batch + self.step if moving else self.batch
        arriving = served if self.load.closed else value
        to = self.steering.move(Moment(minute, heading, batch, mtp, moving, arriving, served, running, self.queued, in_system))
        if to is not None and not moving and (self.batch < self.site.replicas if to is Mode.BATCH else self.batch > 0):
            self.left, self.step = self.site.flip_minutes, 1 if to is Mode.BATCH else -1
            self.moves.append(Move(minute=minute, to=to, why=self.steering.why))

    def end(self) -> Run:
        batch, away, served, running, queued, in_system = (np.array(column) for column in zip(*self.rows, strict=True))
        return Run(
            policy=self.policy.name,
            site=self.site,
            load=self.load,
            moves=tuple(self.moves),
            batch=batch.astype(np.int16),
            away=away.astype(bool),
            served=served,
            running=running,
            queued=queued,
            in_system=in_system,
        )


Flow = tuple[float, float, float, float]  # served tok/s, running, queued after, in system


def _open(mix: MixTable, demand: float, queued: float, per_token: float) -> Flow:
    """One minute of arrivals that come whatever happens."""
    served = min(demand + queued / per_token, mix.capacity)
    running = mix.in_flight(served)
    after = max(queued + (demand - served) * per_token, 0.0)
    return served, running, after, running + (queued + after) / 2


def _closed(mix: MixTable, clients: float, queued: float, per_token: float) -> Flow:
    """One minute of clients that wait for their answers: who is not served waits, nothing is carried over."""
    running = min(clients, mix.slots)
    return mix.rate(running), running, clients - running, clients
