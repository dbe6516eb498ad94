"""Forecast: what staying and each move cost over the next hour, in request-minutes.

Two readings of the same load. *Open*: arrivals go on at the smoothed demand; a cost is the requests in the system summed over
time, with the backlog, each absence, and the clearing of what is left (by Little's law, total latency). *Closed*: as many
clients as are in the system now wait for their answers; what a mix serves less than the best one in reach is work lost. A token is worth
the same whoever waits for it, so work lost counts as the requests that it keeps busy in a full fleet, not as a share of those
that are there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .fluid import EMPTY, FluidFleet, MixTable
from .spell import Ahead
from .wavering import wavering

CLEARING_MINUTES = 60.0  # a backlog that takes longer is followed no further
CLEARING_SHARE = 0.02  # of the capacity is left for a backlog at least, so that a full fleet has a finite price
TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """demand: tok/s, smoothed. queued: requests that wait now. in_system: requests, smoothed. closed_weight: 0…1, of the closed loop.

    lately: demand by the minute, oldest first, in tok/s: how it wavers.
    """

    demand: float
    queued: float
    in_system: float
    closed_weight: float
    output_tokens: float
    lately: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a future is priced.

    flip_minutes: from leaving one mode to serving in the other. spare: another replica stands in meanwhile (Surge).
    waiting, lost: weight of a request that waits, and of work that is lost, beside a request that runs.
    lost_by_clients: work lost is the share of the clients that it stands for, whatever their number.
    ahead: of a closed loop; None: as many clients as now for the whole horizon.
    """

    horizon_minutes: float
    flip_minutes: float
    waiting: float = 1.0
    lost: float = 1.0
    spare: bool = False
    lost_by_clients: bool = False
    ahead: Ahead | None = None


@dataclass(slots=True)
class _Way:
    """How far a way has got: request-minutes so far by each reading, and the backlog under the open one."""

    batch: int
    queued: float
    minutes: float = 0.0
    opened: float = 0.0
    closed: float = 0.0


class Forecast:
    """Costs for one load, from `batch` batch replicas on."""

    __slots__ = ("_lost_rate", "_wavering", "batch", "best_rate", "fleet", "load", "per_token", "terms")

    def __init__(self, fleet: FluidFleet, batch: int, load: Load, terms: Terms) -> None:
        self.fleet, self.batch, self.load, self.terms = fleet, batch, load, terms
        self.per_token = 60.0 / load.output_tokens
        self._wavering = wavering(load.lately)
        self.best_rate = 0.0  # tok/s that the clients of a closed loop get from the best mix that is priced
        self._lost_rate = 0.0  # requests that a tok/s less than that stands for

    def steady(self, batch: int) -> float:
        """Requests that `batch` batch replicas hold in the mean, under this load for the whole horizon, from an empty queue."""
        mix, minutes = self.fleet.mix(batch), self.terms.horizon_minutes
        runs, waits, left = mix.flow(self.load.demand, 0.0, minutes, self.per_token)
        return (runs + self.terms.waiting * (waits + self._clearing(mix, left))) / minutes + self.terms.waiting * self.bursts(mix)

    def at_least_as_lately(self) -> "Forecast":
        """This forecast with no less demand than the mean of the last hour: between two bursts an absence only seems cheap."""
        mean = self._wavering.mean
        return self if mean <= self.load.demand else Forecast(self.fleet, self.batch, replace(self.load, demand=mean), self.terms)

    def bursts(self, mix: MixTable) -> float:
        """Requests that wait at `mix` in the mean since demand wavers, beside those that its mean makes wait."""
        return self._wavering.waits(self.load.demand, mix.capacity, self.per_token)

    def costs(self, targets: Iterable[int]) -> dict[int, float]:
        """Cost of ending at each of `targets` batch replicas, one flip after another; the present number means staying."""
        wanted = sorted(targets)
        self.best_rate = max([self.fleet.mix(k).rate(self.load.in_system) for k in wanted])
        self._lost_rate = self._requests_per_rate(self.best_rate)
        found: dict[int, float] = {}
        for target in wanted:
            if target == self.batch:
                found[target] = self._ended(_Way(self.batch, self.load.queued), target)
        for direction in (-1, 1):
            ends = {target for target in wanted if (target - self.batch) * direction > 0}
            way = _Way(self.batch, self.load.queued)
            for k in range(1, max((abs(end - self.batch) for end in ends), default=0) + 1):
                self._flip(way, direction)
                target = self.batch + direction * k
                if target in ends:
                    found[target] = self._ended(way, target)
        return found

    def absence(self, direction: int) -> float:
        """Request-minutes that the absence in one flip in `direction` costs beside staying, its backlog cleared, by both readings."""
        clients = self.load.in_system
        here, away = self.fleet.mix(self.batch), self._away(self.batch, direction)
        lost = max(0.0, here.rate(clients) - away.rate(clients)) * self.terms.flip_minutes
        return self._mean(lost * self._requests_per_rate(here.rate(clients)), self.opened_absence(direction))

    def opened_absence(self, direction: int) -> float:
        """The same where arrivals go on."""
        flip = self.terms.flip_minutes
        here, away = self.fleet.mix(self.batch), self._away(self.batch, direction)
        return max(0.0, self._opened(away, self.fleet.mix(self.batch + direction), flip) - self._opened(here, here, flip))

    def closed_return(self, direction: int, ahead: Ahead) -> float:
        """The same for the way back from a step in `direction`, where clients wait: a replica is away at the load that is usual.

        A step to the mode that does better over the changes needs no way back.
        """
        there, other = (ahead.batch_rate, ahead.mtp_rate) if direction > 0 else (ahead.mtp_rate, ahead.batch_rate)
        if self.terms.spare or there >= other:
            return 0.0
        return there / self.fleet.replicas * self.terms.flip_minutes * self._requests_per_rate(self.best_rate)

    def _requests_per_rate(self, rate: float) -> float:
        """Requests that a tok/s lost stands for."""
        requests = self.load.in_system / max(rate, TINY) if self.terms.lost_by_clients else self.fleet.requests_per_rate
        return self.terms.lost * requests

    def queued_after_flip(self, direction: int) -> float:
        """Requests that wait once one flip in `direction` is over, under the open reading."""
        away = self._away(self.batch, direction)
        return away.flow(self.load.demand, self.load.queued, self.terms.flip_minutes, self.per_token)[2]

    def _opened(self, meanwhile: MixTable, then: MixTable, minutes: float) -> float:
        runs, waits, left = meanwhile.flow(self.load.demand, self.load.queued, minutes, self.per_token)
        return runs + self.terms.waiting * (waits + self._clearing(then, left) + self.bursts(meanwhile) * minutes)

    def _mean(self, closed: float, opened: float) -> float:
        weight = self.load.closed_weight
        return weight * closed + (1.0 - weight) * opened

    def _away(self, batch: int, direction: int) -> MixTable:
        return self.fleet.mix(batch, 0 if self.terms.spare else direction)

    def _flip(self, way: _Way, direction: int) -> None:
        """One more flip, as far as the horizon reaches."""
        left = self.terms.horizon_minutes - way.minutes
        if left <= TINY:
            return
        spent = min(self.terms.flip_minutes, left)
        self._pass(way, self._away(way.batch, direction), spent)
        if spent >= self.terms.flip_minutes:
            way.batch += direction

    def _pass(self, way: _Way, mix: MixTable, minutes: float) -> None:
        runs, waits, way.queued = mix.flow(self.load.demand, way.queued, minutes, self.per_token)
        way.opened += runs + self.terms.waiting * (waits + self.bursts(mix) * minutes)
        way.closed += self._closed(way, mix, way.batch, minutes)
        way.minutes += minutes

    def _closed(self, way: _Way, mix: MixTable, batch: int, minutes: float) -> float:
        """Request-minutes where clients wait: by what the mix does now, and beyond the spell by what it usually does."""
        if self.load.closed_weight <= 0:
            return 0.0
        ahead = self.terms.ahead
        if ahead is None:
            return minutes * self._closed_cost(mix)
        now = max(0.0, min(minutes, ahead.minutes - way.minutes))
        cost = now * self._closed_cost(mix)
        if now < minutes:
            lost = ahead.best_rate - ahead.rate(batch / self.fleet.replicas)
            cost += (minutes - now) * lost * self._lost_rate
        return cost

    def _closed_cost(self, mix: MixTable) -> float:
        """Requests a minute: work lost against the best mix, and what runs slower than it might where latency is what matters."""
        clients = self.load.in_system
        lost = self._lost_rate * (self.best_rate - mix.rate(clients))
        return lost + mix.burden_of(clients) - min(clients, mix.slots) if self.fleet.by_latency else lost

    def _ended(self, way: _Way, target: int) -> float:
        """The cost with the rest of the horizon at the end of the way, and its backlog cleared by the mix that it leads to."""
        rest = self.terms.horizon_minutes - way.minutes
        opened, closed, queued, mix = way.opened, way.closed, way.queued, self.fleet.mix(target)
        if rest > TINY:
            runs, waits, queued = mix.flow(self.load.demand, queued, rest, self.per_token)
            opened += runs + self.terms.waiting * (waits + self.bursts(mix) * rest)
            closed += self._closed(way, mix, target, rest)
        return self._mean(closed, opened + self.terms.waiting * self._clearing(mix, queued))

    def _clearing(self, mix: MixTable, queued: float) -> float:
        """Request-minutes that a backlog waits once the horizon is over."""
        if queued <= EMPTY:
            return 0.0
        spare = max(mix.capacity - self.load.demand, CLEARING_SHARE * mix.capacity)
        minutes = queued / (spare * self.per_token) if spare > 0 else CLEARING_MINUTES
        return queued * minutes / 2 if minutes < CLEARING_MINUTES else queued * CLEARING_MINUTES
