"""Time-weighted exponential smoothing of demand.

One sample never decides. A sample's weight hangs on the time since the one before, so ticks may come irregularly; after
an absence of many time constants (operator down, metrics lost) the old value says nothing any more and is dropped.
"""

import math

from mtpilot.api.inference_service import InferenceServiceSpec

from .timing import seconds

# policy.md asks for weights of about 5 minutes. They scale with the default `stabilization.down` of 3 minutes, so that a
# service that is told to react in seconds does not average over minutes.
TIME_CONSTANT_PER_STABILIZATION = 5 / 3
FORGET_AFTER_TIME_CONSTANTS = 5


def time_constant_seconds(spec: InferenceServiceSpec) -> float:
    """5/3 of `policy.stabilization.down`: 5 minutes by default; 0 means that nothing is smoothed."""
    return TIME_CONSTANT_PER_STABILIZATION * seconds(spec.policy.stabilization.down)


def weight(elapsed_seconds: float, time_constant_seconds: float) -> float:
    """Share of a new sample, 0…1."""
    if time_constant_seconds <= 0:
        return 1.0
    return -math.expm1(-max(elapsed_seconds, 0.0) / time_constant_seconds)


def smooth(previous: float | None, value: float, *, elapsed_seconds: float | None, time_constant_seconds: float) -> float:
    """The new average.

    elapsed_seconds: since the sample before; None: there is none.
    """
    if previous is None or elapsed_seconds is None or elapsed_seconds > FORGET_AFTER_TIME_CONSTANTS * time_constant_seconds:
        return value
    return previous + weight(elapsed_seconds, time_constant_seconds) * (value - previous)
