"""Draining: new requests stop first, then what is in flight ends, then the pod may go.

The serving label is the stop signal (the gateway's agent watches it). Waiting for idle without stopping traffic first would
never end under load; waiting without a deadline would never end with a stuck client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from mtpilot.api.status import SlotPhase
from mtpilot.model.plan import Event, EventType, SetServing
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import Pod, RolloutState

from .context import Context, Step
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
    if context.now >= deadline:
        return DrainView(state=DrainState.TIMED_OUT, deadline=deadline, message=f"timed out with {_left(requests)}")
    message = f"waits for {_left(requests)}" if requests != 0 else "no request in flight; waits until every gateway knows that it drains"
    return DrainView(state=DrainState.WAITING, deadline=deadline, message=message)


def _left(requests: int | None) -> str:
    if requests is None:
        return "an unknown number of requests (the engine does not answer)"
    return f"{requests} request{'' if requests == 1 else 's'} in flight"


def stop_serving(pods: Sequence[Pod]) -> tuple[SetServing, ...]:
    return tuple(SetServing(pod=pod.name, uid=pod.uid, serving=False) for pod in live(pods) if pod.serving)


def resume_serving(pods: Sequence[Pod]) -> tuple[SetServing, ...]:
    return tuple(SetServing(pod=pod.name, uid=pod.uid, serving=True) for pod in live(pods) if not pod.serving)


def keep_draining(phase: SlotPhase, pods: Sequence[Pod], state: RolloutState, started_at: datetime, view: DrainView) -> Step:
    """The step of a slot whose drain is not over; whatever it drains for."""
    return Step(
        phase=phase,
        state=state,
        actions=stop_serving(pods),
        since=started_at,
        deadline=view.deadline,
        message=view.message,
        moving=True,
    )


def end_of_drain(view: DrainView, *, done: Reason, message: str, action: str) -> Event:
    """The event of a drain that is over: `done`, or that it timed out."""
    timed_out = view.state is DrainState.TIMED_OUT
    kind = EventType.WARNING if timed_out else EventType.NORMAL
    return Event(type=kind, reason=Reason.DRAIN_TIMED_OUT if timed_out else done, message=message, action=action)
