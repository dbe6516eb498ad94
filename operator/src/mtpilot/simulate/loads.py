"""What a replay puts on a fleet, minute by minute: arrivals that come whatever happens, or clients that wait for answers.

A trace of somebody else's service says how traffic moves, not how much of it this fleet gets. So it is scaled: its 95th
percentile becomes a given share of what the fleet serves with every replica in mtp mode.
"""

from dataclasses import dataclass

import numpy as np

from .traces import SECONDS_PER_MINUTE, Floats, Trace

ASSUMED_OUTPUT_TOKENS = 1000.0  # of a request, where a trace has no lengths
PEAK_PERCENTILE = 95


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load.

    values: (minutes,) output tok/s asked for, or, where `closed`, clients that wait for their answers.
    output_tokens: of a request, in the mean.
    """

    name: str
    values: Floats
    output_tokens: float = ASSUMED_OUTPUT_TOKENS
    closed: bool = False

    @property
    def minutes(self) -> int:
        return len(self.values)

    @property
    def requests(self) -> float:
        """Requests that arrive in all; meaningless for a closed loop."""
        return float(self.values.sum() * SECONDS_PER_MINUTE / self.output_tokens)


def recorded(trace: Trace, *, output_tokens: float | None = None) -> Load:
    """The trace as it is. output_tokens: of a request, where the trace has no lengths."""
    mean = trace.mean_output_tokens or output_tokens or ASSUMED_OUTPUT_TOKENS
    tokens = trace.output_tokens_per_minute
    if tokens is None:
        tokens = trace.requests_per_minute * mean
    return Load(name=trace.name, values=tokens / SECONDS_PER_MINUTE, output_tokens=mean)


def scaled(
    trace: Trace, *, peak_tokens_per_second: float, seed: int | None, output_tokens: float | None = None, as_in: Trace | None = None
) -> Load:
    """The trace with its 95th percentile at `peak_tokens_per_second`.

    as_in: another part of the same trace, whose percentile counts instead.
    seed: of Poisson noise on the arrivals of a rate trace; None: none. A request trace has its own noise and gets no other.
    """
    load = recorded(trace, output_tokens=output_tokens)
    measured = load if as_in is None else recorded(as_in, output_tokens=output_tokens)
    peak = float(np.percentile(measured.values, PEAK_PERCENTILE))
    if peak <= 0:
        raise ValueError(f"{trace.name}: nothing arrives in 95 % of the minutes: it cannot be scaled")
    values = load.values * (peak_tokens_per_second / peak)
    if seed is not None and trace.output_tokens_per_minute is None:
        tokens_per_second = load.output_tokens / SECONDS_PER_MINUTE  # that one arrival in a minute asks for
        values = np.asarray(np.random.default_rng(seed).poisson(values / tokens_per_second) * tokens_per_second, dtype=float)
    return Load(name=trace.name, values=values, output_tokens=load.output_tokens)
