"""When which request is sent: a schedule is data, made before the first byte of load.

Being data it can be written to a file, replayed for every policy in the same way, and checked for its bounds before it
starts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_REQUESTS = 20_000
MAX_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: sent `at_seconds` after the start, with so many input tokens, asking for exactly `output_tokens`."""

    at_seconds: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Requests in order of time; ValueError where it is out of order or beyond the bounds on count and time."""

    requests: tuple[Request, ...]

    def __post_init__(self) -> None:
        if not self.requests:
            raise ValueError("a schedule needs at least one request")
        if len(self.requests) > MAX_REQUESTS:
            raise ValueError(f"{len(self.requests)} requests: at most {MAX_REQUESTS} are sent in one run")
        times = [request.at_seconds for request in self.requests]
        if times != sorted(times) or times[0] < 0:
            raise ValueError("requests must be in order of time, from 0 on")
        if times[-1] > MAX_SECONDS:
            raise ValueError(f"the schedule lasts {times[-1]:.0f} s: at most {MAX_SECONDS:.0f} s of load are sent in one run")
        if min(min(request.input_tokens, request.output_tokens) for request in self.requests) < 1:
            raise ValueError("every request needs at least one input and one output token")

    @property
    def seconds(self) -> float:
        """From the start to the last arrival."""
        return self.requests[-1].at_seconds

    @property
    def output_tokens(self) -> int:
        return sum(request.output_tokens for request in self.requests)

    def write(self, path: Path) -> None:
        """Write as JSON, readable by `read`."""
        path.write_text(json.dumps([asdict(request) for request in self.requests]))

    @classmethod
    def read(cls, path: Path) -> Schedule:
        return cls(requests=tuple(Request(**document) for document in json.loads(path.read_text())))


def of(requests: Iterable[Request]) -> Schedule:
    """A schedule of requests in any order."""
    return Schedule(requests=tuple(sorted(requests, key=lambda request: request.at_seconds)))


def steady(*, per_second: float, seconds: float, input_tokens: int = 200, output_tokens: int = 200, seed: int = 0) -> Schedule:
    """Poisson arrivals at a constant mean rate; the same seed gives the same schedule."""
    draw = random.Random(seed)
    requests: list[Request] = []
    at = draw.expovariate(per_second)
    while at < seconds:
        requests.append(Request(at_seconds=at, input_tokens=input_tokens, output_tokens=output_tokens))
        at += draw.expovariate(per_second)
    return of(requests or [Request(at_seconds=0.0, input_tokens=input_tokens, output_tokens=output_tokens)])
