"""Conditions: each derived anew from what is there, every tick.

Messages carry no numbers that move by themselves, so that a steady service causes no writes; the numbers stand in `demand`
and in the decision.
"""

import re
from datetime import datetime

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.inference_service import Mode
from mtpilot.api.status import CalibrationPhase, CalibrationStatus, Condition, ConditionType, SlotPhase
from mtpilot.api.throughput_profile import Acceptance
from mtpilot.model.calibration import Calibration
from mtpilot.model.decision import NoDemand
from mtpilot.model.names import gateway_name
from mtpilot.model.reasons import Reason
from mtpilot.model.snapshot import Snapshot
from mtpilot.policy.memory import recall
from mtpilot.policy.refine import DRIFT_SHARE
from mtpilot.rollout.choose import pods_of
from mtpilot.rollout.pods import IMAGE_REASONS, live, trouble

from .findings import Findings
from .history import timestamp

_NUMBER = re.compile(r"\d+")
Finding = tuple[ConditionStatus, str, str]
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def build(found: Findings, now: datetime) -> tuple[Condition, ...]:
    """All six conditions in a fixed order; a transition time moves only with its status."""
    judged: dict[ConditionType, Finding] = {
        ConditionType.READY: _ready(found),
        ConditionType.METRICS_AVAILABLE: _metrics(found),
        ConditionType.CALIBRATED: _calibrated(found),
        ConditionType.MODE_SETTLED: _settled(found),
        ConditionType.CAPACITY_AVAILABLE: _capacity(found),
        ConditionType.DEGRADED: _degraded(found),
    }
    before = {condition.type: condition for condition in found.snapshot.service.status.conditions}
    return tuple(condition_of(kind, finding, before.get(kind), found.snapshot.service.generation, now) for kind, finding in judged.items())


def condition_of(kind: ConditionType, finding: Finding, before: Condition | None, generation: int, now: datetime) -> Condition:
    """A condition of `finding`; its transition time is kept where the status is that of `before`."""
    status, reason, message = finding
    since = before.last_transition_time if before is not None and before.status is status else timestamp(now)
    return Condition(
        type=kind, status=status, reason=reason, message=message[:1024], observed_generation=generation, last_transition_time=since
    )


def _ready(found: Findings) -> Finding:
    service = found.snapshot.service
    serving = sum(slot.phase is SlotPhase.SERVING for slot in found.slots)
    text = f"{serving} of {service.spec.replicas} slots serve"
    if service.spec.replicas == 0:
        return FALSE, Reason.SCALED_TO_ZERO, "spec.replicas is 0"
    if serving == 0:
        return FALSE, Reason.NO_SLOT_SERVES, text
    gateway = next(
        (child for child in found.snapshot.children if child.kind == "Deployment" and child.name == gateway_name(service.name)), None
    )
    if gateway is None or not gateway.ready:
        return FALSE, Reason.GATEWAY_NOT_READY, f"{text}, but no gateway pod is ready"
    reason = Reason.ALL_SLOTS_SERVE if serving >= service.spec.replicas else Reason.SOME_SLOTS_SERVE
    return TRUE, reason, "; ".join((text, *_fewer_requests(found)))


def _fewer_requests(found: Findings) -> list[str]:
    """For each mode whose engines take fewer requests at once than the spec asks for: memory is what limits them."""
    modes, said = found.snapshot.service.spec.modes, []
    for mode, asked in ((Mode.MTP, modes.mtp.max_running_requests), (Mode.BATCH, modes.batch.max_running_requests)):
        seen = [slot.effective_max_running_requests for slot in found.slots if slot.mode is mode]
        least = min((slots for slots in seen if slots), default=asked)
        if least < asked:
            said.append(f"{mode} replicas run {least} requests at once, not modes.{mode}.maxRunningRequests = {asked}")
    return said


def _metrics(found: Findings) -> Finding:
    if isinstance(found.demand, NoDemand):
        return FALSE, found.demand.reason, found.demand.message
    if found.decision is not None and found.decision.reason == Reason.STALE_SERIES:
        return FALSE, Reason.STALE_SERIES, found.decision.message
    if found.demand.missing:
        return FALSE, Reason.PARTIAL_SERIES, f"no fresh numbers of {', '.join(found.demand.missing)}: only a move to batch is possible"
    return TRUE, Reason.METRICS_FRESH, "every serving replica and the gateway report fresh numbers"


def _calibrated(found: Findings) -> Finding:
    selection = found.selection
    calibration, profile = selection.calibration, selection.profile
    if calibration is None or profile is None or profile.spec is None:
        seen = found.policy.mtp_capacity_tokens_per_second is not None
        learned = f"the capacity of a full mtp replica was {'' if seen else 'not '}seen{'' if seen else ' yet'}"
        if found.calibration is not None and found.calibration.phase is not CalibrationPhase.FINISHED:
            return FALSE, *_being_calibrated(found.calibration)
        parts = (f"{selection.message}; until then two thresholds on demand decide, and {learned}", found.remedy)
        return FALSE, selection.reason, "; ".join(part for part in parts if part)
    refinement = recall(found.policy).refinement
    drifted = refinement.drifted
    if drifted is not None:
        side = "less" if refinement.of(drifted).value < 1 else "more"
        far = f"{drifted} replicas have long produced over {DRIFT_SHARE:.0%} {side} than it says: measure again"
        return FALSE, Reason.PROFILE_DRIFT, f"{calibration.profile} no longer holds: {far}; its curves are used, corrected by what is seen"
    text = f"{calibration.profile} ({selection.message}): {_measured(calibration, profile.spec.acceptance)}"
    return TRUE, selection.reason, "; ".join(part for part in (text, *selection.notes, found.remedy) if part)


def _being_calibrated(calibration: CalibrationStatus) -> tuple[str, str]:
    if calibration.phase is CalibrationPhase.FAILED:
        return Reason.CALIBRATION_FAILED, f"no profile was made: {calibration.message}"
    if calibration.phase is CalibrationPhase.WAITING:
        return Reason.CALIBRATION_WAITS, f"no profile yet, a calibration waits: {_NUMBER.sub('…', calibration.message)}"
    return Reason.CALIBRATING, f"no profile yet: {calibration.slot} is out of rotation to be measured"


def _measured(calibration: Calibration, acceptance: Acceptance) -> str:
    """What the curves say, in numbers that stand still."""
    accepted = calibration.curves.accept_length
    length = f", accept length {accepted:.2f}" if accepted is not None else ""
    crossover = "no crossover"
    if calibration.crossover is not None and calibration.bound is not None:
        bound = calibration.bound.lower()
        crossover = f"{calibration.above} is better above {calibration.crossover:.0f} requests at one replica (bound by {bound})"
    return f"{calibration.context_tokens} tokens of context, {acceptance} acceptance{length}, {crossover}, verdict {calibration.verdict}"


def _settled(found: Findings) -> Finding:
    away = found.calibration.slot if found.calibration is not None else None
    if away is not None:
        return FALSE, Reason.CALIBRATING, f"{away} is out of rotation to be measured"
    return _on_its_way(found) or _off_the_mix(found) or (TRUE, Reason.SETTLED, f"{found.mix}")


def _on_its_way(found: Findings) -> Finding | None:
    for slot in found.slots:
        if slot.desired_mode is not None:
            return FALSE, Reason.FLIPPING, f"{slot.name} goes from {slot.mode} to {slot.desired_mode}"
    for slot in found.slots:
        if slot.phase in (SlotPhase.DRAINING, SlotPhase.REPLACING, SlotPhase.RETIRING):
            return FALSE, Reason.ROLLING_OUT, f"{slot.name} is {slot.phase}"
        if slot.phase is SlotPhase.ROLLING_BACK:
            return FALSE, Reason.ROLLED_BACK, f"{slot.name} goes back to {slot.mode}"
    return None


def _off_the_mix(found: Findings) -> Finding | None:
    decision = found.decision
    if decision is not None and decision.recommended != found.mix and found.snapshot.service.spec.replicas > 0:
        return FALSE, decision.reason, f"recommended {decision.recommended}, running {found.mix}"
    replicas = found.snapshot.service.spec.replicas
    if found.mix.total < replicas:
        reason = found.problem[0] if found.problem is not None else Reason.ROLLING_OUT
        return FALSE, reason, f"{found.mix}: {found.mix.total} of {replicas} replicas are made"
    return None


def _capacity(found: Findings) -> Finding:
    snapshot = found.snapshot
    if snapshot.hardware is None:
        return UNKNOWN, Reason.HARDWARE_CLASS_MISSING, f"HardwareClass {snapshot.service.spec.hardware_class} does not exist"
    if snapshot.hardware.nodes == 0:
        return FALSE, Reason.NO_MATCHING_NODES, f"no ready node matches HardwareClass {snapshot.hardware.name}"
    for pod in live(snapshot.pods):
        if pod.unschedulable:
            short = snapshot.hardware.spec.gpu.resource in pod.unschedulable
            return FALSE, Reason.INSUFFICIENT_GPUS if short else Reason.UNSCHEDULABLE, f"{pod.slot}: {pod.unschedulable}"
    return TRUE, Reason.CAPACITY_FREE, "every replica has its GPUs"


def _degraded(found: Findings) -> Finding:
    if found.problem is not None:
        return TRUE, *found.problem
    if found.snapshot.conflicts:
        conflict = found.snapshot.conflicts[0]
        return TRUE, Reason.NAME_CONFLICT, f"{conflict.kind} {conflict.name} exists and is not ours: it is left alone, and ours is not made"
    if isinstance(found.demand, NoDemand) and found.demand.hang:
        return TRUE, found.demand.reason, found.demand.message
    troubles = _broken_pod(found.snapshot) or _refused_pod(found.snapshot) or _failed_template(found)
    return troubles or (FALSE, Reason.HEALTHY, "nothing is wrong")


def _broken_pod(snapshot: Snapshot) -> Finding | None:
    for pod in live(snapshot.pods):
        if pod.crash_looping:
            return TRUE, Reason.CRASH_LOOP, f"{pod.slot}: {trouble(pod)}"
        if pod.waiting_reason in IMAGE_REASONS:
            return TRUE, Reason.IMAGE_PULL_FAILED, f"{pod.slot}: {trouble(pod)}"
    return None


def _refused_pod(snapshot: Snapshot) -> Finding | None:
    """A slot whose pod cannot even be made: a quota, an admission webhook."""
    for slot in snapshot.slots:
        if slot.refused and not live(pods_of(slot, snapshot.pods)):
            return TRUE, Reason.RECONCILE_FAILED, f"{slot.name}: {slot.refused}"
    return None


def _failed_template(found: Findings) -> Finding | None:
    """A template that failed is of interest as long as the spec wants it."""
    for slot in found.snapshot.slots:
        failed = slot.state.failed_digest if slot.state is not None else None
        if failed is not None and failed in found.templates:
            return TRUE, Reason.ROLLED_BACK, f"{slot.name}: template {failed} was not ready in time and is put aside"
    return None
