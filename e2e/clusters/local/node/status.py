"""From container records to a pod's status: phase, conditions and container statuses by a kubelet's rules.

Controllers and the operator act on exactly these fields, so they are computed in one pure place and compared with what was sent last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from e2e.clusters.local.node.records import ContainerRecord, Running, Terminated, Waiting

Condition = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that a status depends on beside the pod's own manifest."""

    init: Sequence[ContainerRecord]
    main: Sequence[ContainerRecord]
    pod_ip: str | None
    host_ip: str
    start_time: str
    now: str


def pod_status(pod: dict[str, Any], observed: Observed) -> dict[str, Any]:
    """Give the status of a pod; transition times are kept where `pod`'s own conditions already say the same."""
    policy = pod["spec"].get("restartPolicy", "Always")
    phase = pod_phase(policy, observed.init, observed.main)
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": observed.start_time,
        "hostIP": observed.host_ip,
        "hostIPs": [{"ip": observed.host_ip}],
        "containerStatuses": [record.status() for record in observed.main],
    }
    if observed.init:
        status["initContainerStatuses"] = [record.status() for record in observed.init]
    if observed.pod_ip is not None:
        status |= {"podIP": observed.pod_ip, "podIPs": [{"ip": observed.pod_ip}]}
    status["conditions"] = _conditions(pod, phase, observed)
    return status


def pod_phase(policy: str, init: Sequence[ContainerRecord], main: Sequence[ContainerRecord]) -> str:
    """Give the phase for a restart policy and the containers' records."""
    for record in init:
        failed = isinstance(record.state, Terminated) and record.state.exit_code != 0
        if failed and policy == "Never":
            return "Failed"
        if not initialized(record):
            return "Pending"
    fresh = [r for r in main if isinstance(r.state, Waiting) and r.last is None]
    if fresh:
        return "Pending"
    if policy == "Always" or any(isinstance(r.state, Running) for r in main):
        return "Running"
    ends = [r.state if isinstance(r.state, Terminated) else r.last for r in main]
    if all(end is not None and end.exit_code == 0 for end in ends):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def initialized(record: ContainerRecord) -> bool:
    """Tell whether an init container lets the next one start: it ended well, or is a sidecar that has started."""
    if record.restartable:
        return record.started
    return isinstance(record.state, Terminated) and record.state.exit_code == 0


def _conditions(pod: dict[str, Any], phase: str, observed: Observed) -> list[Condition]:
    known = {condition["type"]: condition for condition in pod.get("status", {}).get("conditions", [])}
    incomplete = [record.name for record in observed.init if not initialized(record)]
    unready = [record.name for record in [*observed.main, *(r for r in observed.init if r.restartable)] if not record.ready]
    done = phase == "Succeeded"
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", [])]
    closed = [gate for gate in gates if known.get(gate, {}).get("status") != "True"]
    containers = _because(unready or incomplete, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]", done=done)
    ready = containers
    if containers["status"] == "True" and closed:
        ready = {
            "status": "False",
            "reason": "ReadinessGatesNotReady",
            "message": f"the status of pod readiness gate is not True: {closed}",
        }
    found: dict[str, Condition] = {
        "PodReadyToStartContainers": {"status": "True" if observed.pod_ip is not None else "False"},
        "Initialized": _because(
            incomplete, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]", done=done
        ),
        "ContainersReady": containers,
        "Ready": ready,
        "PodScheduled": {"status": "True"},
    }
    return [_dated(kind, condition, known.get(kind), observed.now) for kind, condition in found.items()]


def _because(names: Sequence[str], reason: str, message: str, *, done: bool) -> Condition:
    if done:
        ended_well = reason == "ContainersNotInitialized"
        return {"status": "True" if ended_well else "False", "reason": "PodCompleted"}
    return {"status": "False", "reason": reason, "message": message} if names else {"status": "True"}


def _dated(kind: str, condition: Condition, known: Condition | None, now: str) -> Condition:
    same = known is not None and known["status"] == condition["status"]
    changed = known["lastTransitionTime"] if known is not None and same and known.get("lastTransitionTime") else now
    return {"type": kind, **condition, "lastTransitionTime": changed}
