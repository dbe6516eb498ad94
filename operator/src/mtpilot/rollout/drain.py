"""Draining: new requests stop first, then what is in flight ends, then the pod may go.

The serving label is the stop signal (the gateway's agent watches it). Waiting for idle without stopping traffic first would
never end under load; waiting without a deadline would never end with a stuck client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from mtpilot.model.plan import SetServing
from mtpilot.model.slots import Pod

from .context import Context
from .pods import in_flight, live, worth_draining


class DrainState(Enum):
    WAITING = "waiting"
    DONE = "done"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainView:
    state: DrainState
    deadline: datetime
    message: str


def observe_drain(pods: Sequence[Pod], started_at: datetime, context: Context) -> DrainView:
    """Whether a drain that began at `started_at` is over."""
    deadline = started_at + context.drain_timeout
    busy = worth_draining(pods)
    if not busy:
        return DrainView(state=DrainState.DONE, deadline=deadline, message="no pod that could hold a request")
    requests = in_flight(busy, context.loads)
    if requests == 0 and context.now >= started_at + context.settle and not any(pod.serving for pod in busy):
        return DrainView(state=DrainState.DONE, deadline=deadline, message="no request in flight")
    left = "an unknown number of requests (the engine does not answer)" if requests is None else f"{requests} requests in flight"
    state = DrainState.TIMED_OUT if context.now >= deadline else DrainState.WAITING
    return DrainView(
        state=state, deadline=deadline, message=f"waits for {left}" if state is DrainState.WAITING else f"timed out with {left}"
    )


def stop_serving(pods: Sequence[Pod]) -> tuple[SetServing, ...]:
    return tuple(SetServing(pod=pod.name, uid=pod.uid, serving=False) for pod in live(pods) if pod.serving)


def resume_serving(pods: Sequence[Pod]) -> tuple[SetServing, ...]:
    return tuple(SetServing(pod=pod.name, uid=pod.uid, serving=True) for pod in live(pods) if not pod.serving)
