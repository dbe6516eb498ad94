"""How long one decision takes: the whole of `plan()`, with a profile and many replicas, while a load goes up and down."""

from __future__ import annotations

import math
import time

import numpy as np

from mtpilot.reconcile import plan
from tests import profiles
from tests.world import RATE, World, spec

REPLICAS = 16
TICKS = 600
SECONDS_PER_TICK = 10.0
_SETTLING_SECONDS = 120.0


def plan_p99_ms(ticks: int = TICKS) -> float:
    """The 99th percentile of the time of `plan()` in milliseconds, on one core, over two waves of load that cross the mtp capacity."""
    world = World(spec=spec(replicas=REPLICAS), profiles=(profiles.profile(),))
    world.run(_SETTLING_SECONDS)
    most = 1.2 * REPLICAS * max(RATE.values())
    took = []
    for tick in range(ticks):
        world.step(SECONDS_PER_TICK)
        world.demand = most * (0.5 - 0.5 * math.cos(4 * math.pi * tick / ticks))
        snapshot = world.snapshot()
        began = time.perf_counter()
        plan(snapshot, world.now)
        took.append(time.perf_counter() - began)
        world.tick()
    return float(np.percentile(took, 99)) * 1000
