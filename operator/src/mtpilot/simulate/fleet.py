"""A fleet as arrays: what every mix serves with how many requests in flight, for many fleets and mixes at once.

It is the fluid model that decides (`policy.fluid`), read out for numpy. Rates are in requests per minute here, since a replay by
the minute then needs no constants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtpilot.curves.curve import CurvePair
from mtpilot.policy.fluid import FluidFleet, MixTable

from .traces import SECONDS_PER_MINUTE, Floats

LEVELS = 256  # of the even table that the dynamic program reads; a replay reads the exact knots
Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Mixes of several fleets, padded to one shape.

    rates: (fleets, mixes, knots) requests per minute, rising from 0; requests: same shape, in flight at each.
    cap, slots: (fleets, mixes) the last knot of each.
    even: (fleets, mixes, LEVELS + 1) requests in flight at evenly spaced shares of the cap.
    """

    rates: Floats
    requests: Floats
    cap: Floats
    slots: Floats
    even: Floats

    def in_flight(self, fleet: Ints, mix: Ints, rate: Floats) -> Floats:
        """Requests in flight that serve `rate` requests per minute; all of one shape; beyond the cap: its slots."""
        rates, requests = self.rates[fleet, mix], self.requests[fleet, mix]
        right = np.clip((rates < rate[..., None]).sum(axis=-1), 1, rates.shape[-1] - 1)[..., None]
        x0, x1 = (np.take_along_axis(rates, right - i, axis=-1)[..., 0] for i in (1, 0))
        g0, g1 = (np.take_along_axis(requests, right - i, axis=-1)[..., 0] for i in (1, 0))
        share = np.divide(rate - x0, x1 - x0, out=np.ones_like(rate), where=x1 > x0)
        return np.asarray(g0 + (g1 - g0) * np.clip(share, 0.0, 1.0))

    def minute(self, fleet: Ints, mix: Ints, arriving: Floats, queue: Floats) -> tuple[Floats, Floats]:
        """One minute of `arriving` requests on `queue` waiting ones → (requests in system, queue after it)."""
        cap = self.cap[fleet, mix]
        after = np.maximum(queue + arriving - cap, 0.0)
        running = self.in_flight(fleet, mix, np.minimum(arriving + queue, cap))
        return running + (queue + after) / 2, after


def tables(pairs: Sequence[CurvePair], mixes: Sequence[tuple[int, int]], output_tokens: float) -> Tables:
    """The tables of every pair and (batch, mtp) mix, for requests of `output_tokens`."""
    fleets = [FluidFleet(pair, 0, by_latency=False) for pair in pairs]
    found = [[fleet.of(mtp, batch) for batch, mtp in mixes] for fleet in fleets]
    knots = max(2, *(len(mix.rates) for row in found for mix in row))

    def padded(values: Callable[[MixTable], tuple[float, ...]]) -> Floats:
        return np.array([[values(mix) + (values(mix)[-1],) * (knots - len(mix.rates)) for mix in row] for row in found])

    rates, requests = padded(lambda mix: mix.rates) * SECONDS_PER_MINUTE / output_tokens, padded(lambda mix: mix.requests)
    share = np.linspace(0.0, 1.0, LEVELS + 1)
    even = [[np.interp(share * mix.capacity, mix.rates, mix.requests) for mix in row] for row in found]
    return Tables(rates=rates, requests=requests, cap=rates[..., -1], slots=requests[..., -1], even=np.array(even))
