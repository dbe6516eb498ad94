"""What a run was worth: the cost that the optimum is measured in, and what users and operators would say of it.

The fluid knows no single request, so latency is an estimate: the mean by Little's law, exactly; the 99th percentile over what a
request of mean length meets that arrives in each minute, in order of arrival: the time until everybody before it has started, then its
tokens at the speed of that minute.
"""

from dataclasses import dataclass

import numpy as np

from .driver import LEFTOVER_MINUTES, Run
from .traces import SECONDS_PER_MINUTE, Floats

_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One run in numbers.

    cost: request-minutes; None for a closed load. tokens: output tokens served.
    mean_latency_seconds, p99_latency_seconds: from arrival to the last token of a request of mean length; None: nothing was served.
    overload_minutes: minutes that end with requests waiting. batch_share: of the replica-minutes.
    """

    policy: str
    cost: float | None
    tokens: float
    tokens_per_second: float
    flips: int
    mean_latency_seconds: float | None
    p99_latency_seconds: float | None
    overload_minutes: int
    batch_share: float


def score(run: Run) -> Score:
    """The numbers of one run."""
    return Score(
        policy=run.policy,
        cost=None if run.load.closed else run.request_minutes,
        tokens=run.tokens,
        tokens_per_second=run.tokens / (run.load.minutes * SECONDS_PER_MINUTE),
        flips=run.flips,
        mean_latency_seconds=_mean_latency(run),
        p99_latency_seconds=_p99_latency(run),
        overload_minutes=int((run.queued > _NOTHING).sum()),
        batch_share=float(run.batch.mean() / run.site.replicas),
    )


def _mean_latency(run: Run) -> float | None:
    """Little's law: the time of all requests in the system, over their number."""
    if run.load.closed:
        served = run.tokens / run.site.output_tokens
        return float(run.in_system.sum() * SECONDS_PER_MINUTE / served) if served > 0 else None
    return run.request_minutes * SECONDS_PER_MINUTE / run.load.requests if run.load.requests > 0 else None


def _p99_latency(run: Run) -> float | None:
    arriving = run.served if run.load.closed else run.load.values
    if not arriving.sum() > 0:
        return None
    latency = _closed_latency(run) if run.load.closed else _open_latency(run)
    order = np.argsort(latency)
    reached = np.cumsum(arriving[order])
    return float(latency[order][np.searchsorted(reached, 0.99 * reached[-1])])


def _service_seconds(run: Run) -> Floats:
    """Time that a request's tokens take at each minute's speed; a minute that serves nobody has the slowest one's."""
    speed = np.divide(run.served, run.running, out=np.zeros_like(run.served), where=run.running > _NOTHING)
    slowest = speed[speed > 0].min(initial=np.inf)
    return np.asarray(run.site.output_tokens / np.where(speed > 0, speed, slowest), dtype=float)


def _closed_latency(run: Run) -> Floats:
    """A client's round: everybody in the system is answered once."""
    per_second = run.served / run.site.output_tokens
    found = np.full_like(per_second, np.inf)
    np.divide(run.in_system, per_second, out=found, where=per_second > 0)
    return found


def _open_latency(run: Run) -> Floats:
    """First come, first served: who arrives by a minute's end starts when as many have started as had arrived by then."""
    arrived = np.cumsum(run.load.values) * SECONDS_PER_MINUTE / run.site.output_tokens
    started = arrived - run.queued
    minutes = np.arange(1, run.load.minutes + 1, dtype=float)
    waited = np.maximum(np.interp(arrived, started, minutes, right=run.load.minutes + LEFTOVER_MINUTES) - minutes, 0.0)
    waited[run.queued <= _NOTHING] = 0.0
    return np.asarray(waited * SECONDS_PER_MINUTE + _service_seconds(run))
