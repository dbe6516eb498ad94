"""The operator's own Prometheus metrics, in a registry of their own.

Everything about a service is set from the plan that was just made, and removed with the service, so that a series never
outlives what it speaks of.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import InferenceServiceStatus, Loop, SlotPhase
from mtpilot.model.plan import Plan

_OF_SERVICE = ("namespace", "service")
_TURN_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_FLIP_BUCKETS = (10, 30, 60, 120, 180, 240, 300, 450, 600, 900, 1200, 1800)


@dataclass(slots=True)
class OperatorMetrics:
    """Metric objects; labels always begin with namespace and service."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    turn_seconds: Histogram = field(init=False)
    turn_errors: Counter = field(init=False)
    last_success: Gauge = field(init=False)
    decisions: Counter = field(init=False)
    flips: Counter = field(init=False)
    flip_seconds: Histogram = field(init=False)
    slots: Gauge = field(init=False)
    desired: Gauge = field(init=False)
    holding_since: Gauge = field(init=False)
    actions: Counter = field(init=False)
    status_writes: Counter = field(init=False)
    predicted_cost: Gauge = field(init=False)
    price_of_return: Gauge = field(init=False)
    closed_loop: Gauge = field(init=False)
    _decided: dict[tuple[str, str], tuple[str, str | None]] = field(default_factory=dict)
    _ended: dict[tuple[str, str], set[tuple[str, str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        registry = self.registry
        build = Info("mtpilot_build", "Version of the operator and of Python.", registry=registry)
        build.info({"version": version(), "python": platform.python_version()})
        self.turn_seconds = Histogram(
            "mtpilot_reconcile_duration_seconds",
            "One turn: gather, plan, execute, status.",
            _OF_SERVICE,
            buckets=_TURN_BUCKETS,
            registry=registry,
        )
        self.turn_errors = Counter("mtpilot_reconcile_errors", "Turns that ended early.", (*_OF_SERVICE, "stage"), registry=registry)
        self.last_success = Gauge(
            "mtpilot_reconcile_last_success_timestamp_seconds", "End of the last whole turn.", _OF_SERVICE, registry=registry
        )
        self.decisions = Counter("mtpilot_decisions", "Decisions as they changed, by reason.", (*_OF_SERVICE, "reason"), registry=registry)
        self.flips = Counter(
            "mtpilot_flips", "Flips that ended, by direction and outcome.", (*_OF_SERVICE, "to", "outcome"), registry=registry
        )
        self.flip_seconds = Histogram(
            "mtpilot_flip_duration_seconds", "From decision to Ready.", (*_OF_SERVICE, "to"), buckets=_FLIP_BUCKETS, registry=registry
        )
        self.slots = Gauge("mtpilot_slots", "Replica slots by mode and phase.", (*_OF_SERVICE, "mode", "phase"), registry=registry)
        self.desired = Gauge(
            "mtpilot_recommended_replicas", "The mix that the rule wants, guards aside.", (*_OF_SERVICE, "mode"), registry=registry
        )
        self.holding_since = Gauge(
            "mtpilot_decision_timestamp_seconds", "When the present decision or hold began.", (*_OF_SERVICE, "reason"), registry=registry
        )
        self.actions = Counter("mtpilot_actions", "Writes to the cluster, by kind of action.", (*_OF_SERVICE, "action"), registry=registry)
        self.status_writes = Counter("mtpilot_status_writes", "Writes of status.", _OF_SERVICE, registry=registry)
        self._add_outlook(registry)

    def _add_outlook(self, registry: CollectorRegistry) -> None:
        """What the predictive rule sees; no series where nothing is predicted."""
        self.predicted_cost = Gauge(
            "mtpilot_predicted_cost_request_seconds",
            "Requests in the system, summed over the time ahead: choice stay is the present mix, move the cheapest other one.",
            (*_OF_SERVICE, "choice"),
            registry=registry,
        )
        self.price_of_return = Gauge(
            "mtpilot_price_of_return_request_seconds",
            "What the way back from the best move has cost lately.",
            _OF_SERVICE,
            registry=registry,
        )
        self.closed_loop = Gauge(
            "mtpilot_closed_loop_ratio",
            "How sure it is that clients wait for their answers: 0 open, 1 closed.",
            _OF_SERVICE,
            registry=registry,
        )

    def observe_plan(self, namespace: str, service: str, plan: Plan, before: InferenceServiceStatus, now: float) -> None:
        """Set everything that a plan says about a service. `before` is the status that the plan was made from."""
        key = (namespace, service)
        self._observe_decision(key, plan.status, now)
        self._observe_slots(key, plan.status)
        self._observe_outlook(key, plan.status)
        self._observe_history(key, plan.status, before)

    def _observe_decision(self, key: tuple[str, str], status: InferenceServiceStatus, now: float) -> None:
        decision = status.decision
        if decision is None or self._decided.get(key) == (decision.reason, decision.at):
            return
        previous = self._decided.get(key)
        if previous is not None:
            self._drop(self.holding_since, (*key, previous[0]))
        self._decided[key] = (decision.reason, decision.at)
        self.decisions.labels(*key, decision.reason).inc()
        self.holding_since.labels(*key, decision.reason).set(now)

    def _observe_slots(self, key: tuple[str, str], status: InferenceServiceStatus) -> None:
        for mode in Mode:
            for phase in SlotPhase:
                count = sum(slot.mode is mode and slot.phase is phase for slot in status.slots)
                self.slots.labels(*key, mode.value, phase.value).set(count)
        if status.recommended is not None:
            self.desired.labels(*key, Mode.MTP.value).set(status.recommended.mtp)
            self.desired.labels(*key, Mode.BATCH.value).set(status.recommended.batch)

    def _observe_outlook(self, key: tuple[str, str], status: InferenceServiceStatus) -> None:
        outlook = status.decision.outlook if status.decision is not None else None
        if outlook is None or status.loop is None:
            labels = dict(zip(_OF_SERVICE, key, strict=True))
            for metric in (self.predicted_cost, self.price_of_return, self.closed_loop):
                metric.remove_by_labels(labels)
            return
        moves = [float(move.request_minutes) for move in outlook.moves]
        self.predicted_cost.labels(*key, "stay").set(60 * float(outlook.staying.request_minutes))
        if moves:
            self.predicted_cost.labels(*key, "move").set(60 * min(moves))
        self.price_of_return.labels(*key).set(60 * float(outlook.price_of_return))
        confidence = float(status.loop.confidence)
        self.closed_loop.labels(*key).set(confidence if status.loop.kind is Loop.CLOSED else 1 - confidence)

    def _observe_history(self, key: tuple[str, str], status: InferenceServiceStatus, before: InferenceServiceStatus) -> None:
        """Count each flip's end once: what the status read from the cluster shows already was counted before, maybe by another process."""
        seen = self._ended.setdefault(key, {(entry.slot, entry.at, entry.outcome) for entry in before.history})
        for entry in status.history:
            mark = (entry.slot, entry.at, entry.outcome)
            if entry.outcome == "Started" or mark in seen:
                continue
            seen.add(mark)
            self.flips.labels(*key, entry.to_mode.value, entry.outcome).inc()
            if entry.seconds is not None:
                self.flip_seconds.labels(*key, entry.to_mode.value).observe(entry.seconds)

    def forget(self, namespace: str, service: str) -> None:
        """Remove every series of a service that is gone."""
        key = (namespace, service)
        self._decided.pop(key, None)
        self._ended.pop(key, None)
        labels: Mapping[str, str] = {"namespace": namespace, "service": service}
        for metric in (
            self.turn_seconds, self.turn_errors, self.last_success, self.decisions, self.flips, self.flip_seconds,
            self.slots, self.desired, self.holding_since, self.actions, self.status_writes,
            self.predicted_cost, self.price_of_return, self.closed_loop,
        ):  # fmt: skip
            metric.remove_by_labels(dict(labels))

    @staticmethod
    def _drop(metric: Gauge, labels: tuple[str, ...]) -> None:
        metric.remove(*labels)


def version() -> str:
    """The installed version of mtpilot."""
    return metadata.version("mtpilot")
