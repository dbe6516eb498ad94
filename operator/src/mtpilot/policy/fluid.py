"""The fluid model of a fleet: what a mix of replicas serves, and how many requests it holds meanwhile.

Requests are taken as a fluid that fills the replicas by best marginal rate, so a mix is one rising, concave table of rate
against requests in flight. It stops where more requests add nothing: what is above that waits. A curve with dents counts
as its concave envelope, since dents are noise of the measurement or are left by sharing requests out otherwise.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from mtpilot.curves.curve import CurvePair, ThroughputCurve

MISERLY = 1e-9  # gain in tok/s per request, as a share of the first request's, below which a request only waits
EMPTY = 1e-9  # requests


@dataclass(frozen=True, slots=True, kw_only=True)
class MixTable:
    """A number of replicas of each mode, taken as one server.

    rates: tok/s, rising from 0. requests: in flight, that each rate needs. burden: what these requests count in a cost: their
    number, or their time per token where latency is what matters. token_seconds: seconds between two tokens of one request, in
    the slower of the modes in use.
    """

    rates: tuple[float, ...]
    requests: tuple[float, ...]
    burden: tuple[float, ...]
    token_seconds: tuple[float, ...]

    @property
    def capacity(self) -> float:
        """tok/s at most."""
        return self.rates[-1]

    @property
    def slots(self) -> float:
        """Requests in flight that reach it."""
        return self.requests[-1]

    def rate(self, requests: float) -> float:
        """tok/s with `requests` at the mix."""
        return _interpolate(self.requests, self.rates, requests)

    def in_flight(self, rate: float) -> float:
        """Requests in flight at `rate` tok/s; all slots where it is beyond the capacity."""
        return _interpolate(self.rates, self.requests, rate)

    def burden_of(self, requests: float) -> float:
        """Burden of what runs of `requests` at the mix."""
        return _interpolate(self.requests, self.burden, requests)

    def token_seconds_of(self, requests: float) -> float:
        """Seconds between two tokens of one request with `requests` at the mix."""
        return _interpolate(self.requests, self.token_seconds, requests)

    def flow(self, demand: float, queued: float, minutes: float, requests_per_token: float) -> tuple[float, float, float]:
        """Constant demand for a while, in closed form: (burden × minutes of what runs, request-minutes of what waits, queue left).

        Args:
            demand: tok/s that arrive. queued: requests that wait at the start.
            requests_per_token: requests a minute for each tok/s: 60 / mean output tokens.
        """
        growth = (demand - self.rates[-1]) * requests_per_token
        if queued <= EMPTY and growth <= 0:
            return _interpolate(self.rates, self.burden, demand) * minutes, 0.0, 0.0
        full = minutes if growth >= 0 else min(minutes, queued / -growth)
        runs, waits = self.burden[-1] * full, (queued + 0.5 * growth * full) * full
        left = max(0.0, queued + growth * full)
        if full < minutes:
            runs += _interpolate(self.rates, self.burden, demand) * (minutes - full)
        return runs, waits, left


def _interpolate(at: tuple[float, ...], values: tuple[float, ...], x: float) -> float:
    """Linear between the points, flat beyond the last; the first is at 0."""
    if x >= at[-1]:
        return values[-1]
    if x <= 0:
        return values[0]
    i = bisect_right(at, x)
    left = at[i - 1]
    low = values[i - 1]
    return low + (values[i] - low) * (x - left) / (at[i] - left)


def envelope(curve: ThroughputCurve) -> tuple[tuple[float, float], ...]:
    """Corners (requests, tok/s) of the least concave curve above `curve`, from (0, 0) to where it stops rising."""
    corners: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in zip(curve.concurrency, curve.tokens_per_second, strict=True):
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], point):
            corners.pop()
        corners.append(point)
    least = MISERLY * _slope(corners[0], corners[1])
    while len(corners) > 2 and _slope(corners[-2], corners[-1]) <= least:
        corners.pop()
    return tuple(corners)


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


class FluidFleet:
    """`replicas` replicas of one pair of curves. Mixes are made when first asked for and kept: the same answers, sooner.

    by_latency: `MixTable.burden` weighs a request by its time per token, in units of the fastest that either mode can give.
    """

    __slots__ = ("_corners", "_fillings", "_mixes", "_requests_per_rate", "by_latency", "curves", "replicas")

    def __init__(self, curves: CurvePair, replicas: int, by_latency: bool) -> None:
        self.curves, self.replicas = curves, replicas
        self.by_latency = by_latency
        self._corners = {"mtp": envelope(curves.mtp), "batch": envelope(curves.batch)}
        self._fillings: dict[tuple[bool, bool], _Filling] = {}
        self._mixes: dict[tuple[int, int], MixTable] = {}
        self._requests_per_rate: float | None = None

    @property
    def requests_per_rate(self) -> float:
        """Requests in flight for each tok/s of a full fleet, in the mix that needs most."""
        if self._requests_per_rate is None:
            # A ratio of two linear functions of the mix is largest at one of its ends.
            full = [mix for mix in (self.mix(0), self.mix(self.replicas)) if mix.capacity > 0]
            self._requests_per_rate = max((mix.slots / mix.capacity for mix in full), default=0.0)
        return self._requests_per_rate

    def mix(self, batch: int, absent: int = 0) -> MixTable:
        """The fleet with `batch` batch replicas, the rest mtp.

        absent: 1: one mtp replica is away, -1: one batch replica is away.
        """
        return self.of(self.replicas - batch - (absent > 0), batch - (absent < 0))

    def of(self, mtp: int, batch: int) -> MixTable:
        found = self._mixes.get((mtp, batch))
        if found is None:
            found = self._mixes[mtp, batch] = self._table(mtp, batch)
        return found

    def _table(self, mtp: int, batch: int) -> MixTable:
        modes = (mtp > 0, batch > 0)
        filling = self._fillings.get(modes)
        if filling is None:
            filling = self._fillings[modes] = self._filling(modes)
        return MixTable(
            rates=tuple([mtp * m + batch * b for m, b in filling.served]),
            requests=tuple([mtp * m + batch * b for m, b in filling.held]),
            burden=tuple([mtp * m + batch * b for m, b in filling.burden]),
            token_seconds=filling.token_seconds,
        )

    def _filling(self, modes: tuple[bool, bool]) -> "_Filling":
        """By falling marginal rate, whatever the numbers of replicas."""
        corners = [found if there else found[:1] for found, there in zip(self._corners.values(), modes, strict=True)]
        pieces = [(_slope(*ends), i, k) for i, found in enumerate(corners) for k, ends in enumerate(pairwise(found))]
        pieces.sort(key=lambda piece: (-piece[0], piece[1], piece[2]))
        at = [found[0] for found in corners]
        reached = [tuple(at)]
        for _, i, k in pieces:
            at[i] = corners[i][k + 1]
            reached.append(tuple(at))
        fastest = max(_slope(*found[:2]) for found in self._corners.values())
        first = 1.0 / max((_slope(*found[:2]) for found in corners if len(found) > 1), default=fastest)
        seconds = [tuple(held / served if held > 0 else 0.0 for held, served in row) for row in reached]
        weights = [tuple(x * fastest if self.by_latency else 1.0 for x in row) for row in seconds]
        return _Filling(
            served=tuple((m[1], b[1]) for m, b in reached),
            held=tuple((m[0], b[0]) for m, b in reached),
            burden=tuple((m[0] * x, b[0] * y) for (m, b), (x, y) in zip(reached, weights, strict=True)),
            token_seconds=(first, *(max(row) for row in seconds[1:])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """How far one mtp and one batch replica are filled, row by row; see `MixTable`. token_seconds: of the slower one."""

    served: tuple[tuple[float, float], ...]
    held: tuple[tuple[float, float], ...]
    burden: tuple[tuple[float, float], ...]
    token_seconds: tuple[float, ...]


@lru_cache(maxsize=512)
def fluid_fleet(curves: CurvePair, replicas: int, by_latency: bool = False) -> FluidFleet:
    """The same fleet for the same curves: its tables are dear to make and never change."""
    return FluidFleet(curves, replicas, by_latency)
