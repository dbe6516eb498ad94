"""What the bench runs: fleet, load and bounds, in one place.

The fleet is the published pair in which the modes differ most for a single request (Qwen3.6-27B: 70 against 26.7 output tokens/s).
How much the contention rule gains depends on that difference: README.md beside this file says what to expect of other pairs.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.load import Request, Schedule
from e2e.load.schedule import of

DATA = Path(__file__).resolve().parents[1] / "data"
CURVE = DATA / "points" / "qwen3.6-27b-320.csv"
PROFILE = DATA / "profiles" / "qwen3.6-27b-320-rtx-pro-6000-x1.yaml"
MODEL = "sim"
SLOTS = {"mtp": 4, "batch": 16}
OUTPUT_TOKENS = (96, 96, 192, 192, 384, 768)
INPUT_TOKENS = (50, 200, 800)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Sizes of one run. Shares are of the fleet's throughput with all slots full; seconds are of this machine's clock.

    time_scale: how many times faster than the published curve the simulators run.
    phases: (seconds, share) one after the other: the mixed load.
    """

    modes: tuple[str, ...] = ("mtp", "mtp", "batch", "batch")
    time_scale: float = 10.0
    full_tokens_per_second: float = 2 * 234.0 + 2 * 320.19
    phases: tuple[tuple[float, float], ...] = ((8.0, 0.12), (8.0, 0.4), (10.0, 0.22))
    flip_most_seconds: float = 40.0
    settle_seconds: float = 0.5
    latency_requests: int = 400
    latency_rounds: int = 4
    rate_requests: int = 16_000
    rate_rounds: int = 4
    rate_connections: int = 16
    omlx_rounds: int = 2
    seed: int = 7

    @property
    def contention_limit(self) -> int:
        """L as the operator publishes it: the profile's crossover, in requests at one replica (the agent stays within the slots)."""
        profile = yaml.safe_load(PROFILE.read_text())
        return int(float(profile["status"]["crossover"]["value"]))

    @property
    def requests_per_second_full(self) -> float:
        """Arrivals that would fill every slot."""
        mean = sum(OUTPUT_TOKENS) / len(OUTPUT_TOKENS)
        return self.full_tokens_per_second * self.time_scale / mean

    def mixed_load(self) -> Schedule:
        """The same arrivals, sizes and order for every contender."""
        draw = random.Random(self.seed)
        requests: list[Request] = []
        begin = 0.0
        for seconds, share in self.phases:
            at = begin + draw.expovariate(share * self.requests_per_second_full)
            while at < begin + seconds:
                requests.append(Request(at_seconds=at, input_tokens=draw.choice(INPUT_TOKENS), output_tokens=draw.choice(OUTPUT_TOKENS)))
                at += draw.expovariate(share * self.requests_per_second_full)
            begin += seconds
        return of(requests)

    def document(self) -> dict[str, Any]:
        """As JSON, with what is derived."""
        return asdict(self) | {"contention_limit": self.contention_limit, "requests": len(self.mixed_load().requests)}


def quick(parameters: Parameters) -> Parameters:
    """The same run in a few seconds each: whether it works, not what it measures."""
    return replace(
        parameters,
        phases=((2.0, 0.12), (2.0, 0.4)),
        latency_requests=100,
        latency_rounds=1,
        rate_requests=1000,
        rate_rounds=1,
        omlx_rounds=1,
    )
