"""Deleting a service: every slot drains at once, then the Deployments go, then the finalizer; the rest is garbage-collected.

The gateway stays until the last engine is gone, since its open streams run through it.
"""

from datetime import datetime

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.inference_service import Mode
from mtpilot.api.status import ConditionType, InferenceServiceStatus, SlotStatus
from mtpilot.calibrate.giving_back import stop_jobs
from mtpilot.model.plan import Action, Event, Plan, ReleaseService
from mtpilot.model.reasons import Reason
from mtpilot.model.slots import RolloutState, Slot
from mtpilot.model.snapshot import Manifest, Snapshot
from mtpilot.rollout.choose import pods_of
from mtpilot.rollout.context import Context
from mtpilot.rollout.retire import begin_retirement, continue_retirement
from mtpilot.rollout.step import state_of

from .conditions import Finding, condition_of
from .fleet import rollout_context
from .status import slot_status, worth_a_write


class _NoTemplates:
    """Nothing is rendered any more: retirement asks for no template."""

    def digest(self, mode: Mode) -> str:
        raise LookupError(f"no {mode} template during deletion")

    def manifest(self, index: int, mode: Mode, state: RolloutState) -> Manifest:
        raise LookupError(f"no {mode} template during deletion")

    def revision(self, slot: Slot, digest: str, state: RolloutState) -> Manifest | None:
        raise LookupError(f"no template {digest} during deletion")


def plan_deletion(snapshot: Snapshot, now: datetime, failure: str | None = None) -> Plan:
    """The next step of a deletion; ReleaseService once no engine is left. For `failure` see `compose.plan`."""
    service = snapshot.service
    context: Context = rollout_context(service.spec, snapshot, _NoTemplates(), now)
    actions: list[Action] = list(stop_jobs(snapshot.calibration))
    events: list[Event] = []
    lines: list[SlotStatus] = []
    for slot in snapshot.slots:
        pods = pods_of(slot, snapshot.pods)
        state = state_of(slot)
        step = continue_retirement(slot, pods, state, context) if state.retiring else begin_retirement(slot, pods, state, context)
        actions.extend(step.actions)
        events.extend(step.events)
        lines.append(slot_status(slot.name, step, slot.mode, pods, snapshot))
    left = [pod for pod in snapshot.pods if not pod.finished]
    if not snapshot.slots and not left and failure is None:
        return Plan(actions=(ReleaseService(),), status=service.status, write_status=False)
    waiting = f"{len(snapshot.slots)} slots drain" if snapshot.slots else f"{len(left)} engine pods end"
    status = _status(snapshot, tuple(lines), waiting, failure, now)
    return Plan(
        actions=tuple(actions) if failure is None else (),
        status=status,
        write_status=worth_a_write(service.status, status, now),
        events=tuple(events) if failure is None else (),
        requeue_seconds=1.0,
    )


def _status(snapshot: Snapshot, lines: tuple[SlotStatus, ...], waiting: str, failure: str | None, now: datetime) -> InferenceServiceStatus:
    service = snapshot.service
    before = {condition.type: condition for condition in service.status.conditions}
    findings: dict[ConditionType, Finding] = {
        ConditionType.READY: (ConditionStatus.FALSE, Reason.DELETING, f"is being deleted: {waiting}"),
        ConditionType.DEGRADED: (ConditionStatus.TRUE, Reason.RECONCILE_FAILED, failure)
        if failure is not None
        else (ConditionStatus.FALSE, Reason.DELETING, "is being deleted"),
    }
    said = {kind: condition_of(kind, finding, before.get(kind), service.generation, now) for kind, finding in findings.items()}
    summary = service.status.summary.model_copy(update={"ready": f"0/{service.spec.replicas}", "reason": Reason.DELETING})
    return service.status.model_copy(
        update={
            "slots": lines,
            "conditions": tuple((before | said).values()),
            "summary": summary,
            "observed_generation": service.generation,
        }
    )
