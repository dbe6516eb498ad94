"""One turn for one service: gather → plan → execute → events → status.

Free of kopf and of any clock but the port's, so that tests drive it directly. Whatever fails ends the turn: the next one
plans again from what is there then, which is the only retry that is always right. What goes on failing stands in the status.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

import structlog

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.status import ConditionType, PolicyState
from mtpilot.model.names import gateway_name
from mtpilot.model.plan import Event, EventType, Plan, ReleaseService
from mtpilot.model.reasons import WITHOUT_EVENT, Reason
from mtpilot.model.snapshot import Service, Snapshot
from mtpilot.ports import ClusterError
from mtpilot.telemetry.metrics import OperatorMetrics

from .context import Key, Ports

_FAILURES_TOLD = 2  # the first one may be an object that changed between the look and the write
_log = structlog.get_logger(__name__)


class Planner(Protocol):
    """`reconcile.plan`."""

    def __call__(self, snapshot: Snapshot, now: datetime, *, failure: str | None = None) -> Plan: ...


@dataclass(slots=True)
class Memory:
    """What a loop keeps between turns; all of it may be lost.

    policy: the rule's state of the last plan, fresher than the status, which is written only when it matters.
    complained: the last failure that was made an Event of, so that a retry does not say it again.
    refusals: turns in a row in which an action was refused.
    metrics_lost: why metrics were last said to be unavailable; None while they are there.
    """

    uid: str = ""
    policy: PolicyState | None = None
    complained: str | None = None
    refusals: int = 0
    metrics_lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a turn ended. gone: the service is no more. failed: what went wrong, or None."""

    requeue_seconds: float = 0.0
    gone: bool = False
    failed: str | None = None


class _StageError(Exception):
    def __init__(self, stage: str, error: ClusterError) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage = stage


async def run_turn(*, key: Key, ports: Ports, planner: Planner, memory: Memory, metrics: OperatorMetrics) -> Outcome:
    """Bring one service a step further. Errors of the cluster are an Outcome; anything else is a bug and is raised."""
    try:
        with metrics.turn_seconds.labels(*key).time():
            return await _turn(key, ports, planner, memory, metrics)
    except _StageError as error:
        metrics.turn_errors.labels(*key, error.stage).inc()
        return Outcome(failed=str(error))


async def _turn(key: Key, ports: Ports, planner: Planner, memory: Memory, metrics: OperatorMetrics) -> Outcome:
    async with _stage("gather"):
        snapshot = await observe(ports, *key)
    if snapshot is None:
        return Outcome(gone=True)
    service = snapshot.service
    if memory.uid != service.uid:
        memory.uid, memory.policy, memory.complained, memory.refusals, memory.metrics_lost = service.uid, None, None, 0, None
    snapshot = replace(snapshot, memory=memory.policy)
    plan = planner(snapshot, ports.clock.now())
    _tell_of_metrics(service, plan, memory)
    try:
        await _execute(service, plan, ports, memory, metrics)
    except _StageError as error:
        memory.refusals += 1
        if memory.refusals >= _FAILURES_TOLD:
            await _report(service, planner(snapshot, ports.clock.now(), failure=str(error)), ports, memory, metrics)
        raise
    if any(isinstance(action, ReleaseService) for action in plan.actions):
        return Outcome(requeue_seconds=plan.requeue_seconds)
    await _report(service, plan, ports, memory, metrics)
    memory.complained, memory.refusals = None, 0
    metrics.last_success.labels(*key).set(ports.clock.now().timestamp())
    return Outcome(requeue_seconds=plan.requeue_seconds)


def _tell_of_metrics(service: Service, plan: Plan, memory: Memory) -> None:
    """One line when metrics go and one when they are back. Where there is nothing to measure yet, nothing is said of either."""
    found = next((condition for condition in plan.status.conditions if condition.type is ConditionType.METRICS_AVAILABLE), None)
    if found is None:
        return
    if found.status is ConditionStatus.TRUE:
        if memory.metrics_lost is not None:
            _log.info("metrics are back", namespace=service.namespace, service=service.name, lost=memory.metrics_lost)
        memory.metrics_lost = None
    elif memory.metrics_lost is None and found.reason not in WITHOUT_EVENT:
        memory.metrics_lost = found.reason
        _log.warning("metrics are unavailable", namespace=service.namespace, service=service.name, reason=found.reason, text=found.message)


async def _report(service: Service, plan: Plan, ports: Ports, memory: Memory, metrics: OperatorMetrics) -> None:
    """Say what a plan has to say: events, then the status where it is worth a write, then our own metrics."""
    key = (service.namespace, service.name)
    await _post(service, plan, ports, metrics)
    if plan.write_status:
        async with _stage("status"):
            await ports.cluster.write_status(service, plan.status.model_dump(mode="json", by_alias=True, exclude_none=True))
        metrics.status_writes.labels(*key).inc()
    memory.policy = plan.status.policy
    metrics.observe_plan(*key, plan, service.status, ports.clock.now().timestamp())


async def observe(ports: Ports, namespace: str, name: str) -> Snapshot | None:
    """A whole snapshot: the cluster's part, then metrics and engines of the pods found there.

    Raises:
        ClusterError: the cluster could not be read.
    """
    snapshot = await ports.cluster.gather(namespace, name)
    if snapshot is None:
        return None
    pods = [pod for pod in snapshot.pods if not pod.finished]
    gateway = next((child for child in snapshot.children if child.kind == "Deployment" and child.name == gateway_name(name)), None)
    metrics = await ports.metrics.observe(namespace, name, pods, gateways=(gateway.ready or 0) if gateway else 0)
    metrics = replace(metrics, gateways_changed_at=gateway.changed_at if gateway else None)
    return replace(snapshot, metrics=metrics, engines=dict(await ports.engine.loads(pods)))


async def _execute(service: Service, plan: Plan, ports: Ports, memory: Memory, metrics: OperatorMetrics) -> None:
    key = (service.namespace, service.name)
    async with _stage("hold"):
        await ports.cluster.hold(service)
    for action in plan.actions:
        kind = type(action).__name__
        try:
            async with _stage(kind):
                await ports.cluster.execute(service, action)
        except _StageError as error:
            await _complain(service, str(error), ports, memory)
            raise
        metrics.actions.labels(*key, kind).inc()
        why = {"why": text} if (text := getattr(action, "why", "")) else {}
        _log.info("done", namespace=service.namespace, service=service.name, action=kind, **why)


async def _post(service: Service, plan: Plan, ports: Ports, metrics: OperatorMetrics) -> None:
    """Events are good to have: a quota on them must not keep the status from being written."""
    for event in plan.events:
        _log.info("event", namespace=service.namespace, service=service.name, reason=event.reason, text=event.message)
        try:
            await ports.cluster.post_event(service, event, ports.clock.now())
        except ClusterError as error:
            metrics.turn_errors.labels(service.namespace, service.name, "event").inc()
            _log.warning("event not posted", namespace=service.namespace, service=service.name, error=str(error))


async def _complain(service: Service, failure: str, ports: Ports, memory: Memory) -> None:
    """Tell the user once why nothing moves: a quota, a refused overlay, a missing right."""
    if memory.complained == failure:
        return
    memory.complained = failure
    event = Event(type=EventType.WARNING, reason=Reason.RECONCILE_FAILED, message=failure)
    try:
        await ports.cluster.post_event(service, event, ports.clock.now())
    except ClusterError as error:
        _log.warning("event not posted", namespace=service.namespace, service=service.name, error=str(error))


@asynccontextmanager
async def _stage(name: str) -> AsyncIterator[None]:
    try:
        yield
    except ClusterError as error:
        raise _StageError(name, error) from error
