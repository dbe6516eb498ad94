"""Small fleets and loads for the replay's tests: numbers that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mtpilot.api.inference_service import Mode
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.simulate.driver import Moment, Site
from mtpilot.simulate.loads import Load

TOKENS = 600.0  # of a request: 10 tok/s are one request per minute


def curve(*points: tuple[float, float]) -> ThroughputCurve:
    return ThroughputCurve(concurrency=tuple(c for c, _ in points), tokens_per_second=tuple(x for _, x in points))


# mtp: 100 tok/s with 10 slots; batch: 160 tok/s with 40. One request runs at 10 or at 4 tok/s.
PAIR = CurvePair(mtp=curve((10, 100)), batch=curve((40, 160)))


def site(replicas: int = 2, flip_minutes: int = 3, pair: CurvePair = PAIR) -> Site:
    return Site(curves=pair, replicas=replicas, flip_minutes=flip_minutes, output_tokens=TOKENS)


def opened(values: Iterable[float], output_tokens: float = TOKENS) -> Load:
    return Load(name="open", values=np.array(list(values), dtype=float), output_tokens=output_tokens)


def closed(values: Iterable[float]) -> Load:
    return Load(name="closed", values=np.array(list(values), dtype=float), output_tokens=TOKENS, closed=True)


class Script:
    """A policy that moves at given minutes, and keeps what it was shown."""

    name = "script"
    why = "scripted"

    def __init__(self, moves: Mapping[int, Mode | None], batch: int = 0) -> None:
        self.moves, self.batch = moves, batch
        self.seen: list[Moment] = []

    def curves(self, pair: CurvePair) -> CurvePair:
        return pair

    def begin(self, site: Site) -> Script:
        return self

    def move(self, moment: Moment) -> Mode | None:
        self.seen.append(moment)
        return self.moves.get(moment.minute)
