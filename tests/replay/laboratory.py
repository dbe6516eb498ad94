"""The policy laboratory's first predictive rule, kept to show that the project's model and replay give what the laboratory gave.

It decides by the smoothed demand and the queue alone, has no guards, and sees the load even while its only replica is away. What is
shipped is `policy.predictive`, which began as this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mtpilot.api.inference_service import Mode
from mtpilot.curves.curve import CurvePair
from mtpilot.policy.fluid import FluidFleet, MixTable
from mtpilot.simulate.driver import Moment, Site

SHARE, HORIZON, MARGIN, HOLD = 0.2, 60.0, 0.03, 2
CLEARED_MINUTES = 60.0


@dataclass(frozen=True, slots=True)
class Laboratory:
    name: str = "laboratory"

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> _Rule:
        return _Rule(site, FluidFleet(site.curves, site.replicas, by_latency=False))


@dataclass(slots=True)
class _Rule:
    site: Site
    fleet: FluidFleet
    batch: int = 0
    why: str = "predicted"
    demand: float | None = None
    in_system: float = 0.0
    before: float | None = None
    closed: float = 0.5
    price: dict[tuple[int, int], float] = field(default_factory=dict)
    same: int = 0
    direction: int = 0

    def move(self, moment: Moment) -> Mode | None:
        self._take(moment)
        if moment.moving:
            self.same = 0
            return None
        here, replicas = moment.batch, self.site.replicas
        costs = {k: self._cost(here, k, moment.queued) for k in sorted({max(here - 1, 0), here, min(here + 1, replicas), 0, replicas})}
        for step in (-1, 1):
            if costs.get(here + step, 0.0) > costs[here]:
                absence, key = self._absence(here, step, moment.queued), (here + step, here)
                self.price[key] = self.price.get(key, absence) + (absence - self.price.get(key, absence)) / 120
        best = min(costs, key=lambda k: costs[k])
        if best != here:
            step = 1 if best > here else -1
            back = self.price.get((here + step, here), 0.0) * abs(best - here)
            if costs[best] + back < costs[here] * (1 - MARGIN) - 1e-9:
                self.same = self.same + 1 if self.direction == step else 1
                self.direction = step
                if self.same <= HOLD:
                    return None
                self.same = 0
                return Mode.BATCH if step > 0 else Mode.MTP
        self.same = 0
        return None

    def _take(self, moment: Moment) -> None:
        if self.demand is None:
            self.demand, self.in_system = moment.arriving, moment.in_system
        self.demand += SHARE * (moment.arriving - self.demand)
        self.in_system += 0.5 * (moment.in_system - self.in_system)
        if self.before is not None and moment.queued > 0.5:
            stayed = abs(moment.in_system - self.before) <= 0.01 * max(moment.in_system, 1) + 0.5
            self.closed += 0.05 * (stayed - self.closed)
        self.before = moment.in_system

    def _away(self, batch: int, step: int) -> MixTable:
        return self.fleet.mix(batch, step)

    def _lost(self, mix: MixTable) -> float:
        """Requests that a closed loop's work lost stands for, a minute."""
        rates = [self.fleet.mix(k).rate(self.in_system) for k in range(self.site.replicas + 1)]
        return self.in_system * (1 - mix.rate(self.in_system) / max(*rates, 1e-9))

    def _cost(self, here: int, target: int, queued: float) -> float:
        lost, now, minutes = 0.0, here, 0.0
        while now != target and minutes < HORIZON:
            step = 1 if target > now else -1
            lost += self.site.flip_minutes * self._lost(self._away(now, step))
            now += step
            minutes += self.site.flip_minutes
        lost += max(HORIZON - minutes, 0.0) * self._lost(self.fleet.mix(now))
        return self.closed * lost + (1 - self.closed) * self._opened(here, target, queued, HORIZON)

    def _opened(self, here: int, target: int, queued: float, horizon: float) -> float:
        assert self.demand is not None
        per_token, flip = 60.0 / self.site.output_tokens, float(self.site.flip_minutes)
        total, now, minutes = 0.0, here, 0.0
        while minutes < horizon - 1e-9:
            step = (target > now) - (target < now)
            spent = min(flip, horizon - minutes) if step else horizon - minutes
            mix = self._away(now, step) if step else self.fleet.mix(now)
            runs, waits, queued = mix.flow(self.demand, queued, spent, per_token)
            total += runs + waits
            minutes += spent
            now += step if spent >= flip - 1e-9 else 0
        capacity = self.fleet.mix(target).capacity
        clear = queued / (max(capacity - self.demand, 0.02 * max(capacity, 1.0)) * per_token)
        return total + (queued * clear / 2 if clear < CLEARED_MINUTES else queued * CLEARED_MINUTES)

    def _absence(self, here: int, step: int, queued: float) -> float:
        flip = float(self.site.flip_minutes)
        served, away = self.fleet.mix(here).rate(self.in_system), self._away(here, step).rate(self.in_system)
        gone = self.closed * self.in_system * flip * max(0.0, 1 - away / max(served, 1e-9))
        more = self._opened(here, here + step, queued, flip) - self._opened(here, here, queued, flip)
        return gone + (1 - self.closed) * max(more, 0.0)
