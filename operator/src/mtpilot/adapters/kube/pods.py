"""An engine pod as the core sees it, from the live object.

What a pod *may hold* is decided here: a pod that was never ready holds no request, so "was ready" must neither be lost over
a slow probe nor claimed for a container that crashed on its way up.
"""

from datetime import datetime, timedelta
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import ENGINE_CONTAINER, LABEL_MODE, LABEL_SERVING, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.model.slots import Pod
from mtpilot.model.snapshot import Manifest

from .fields import condition, container_statuses, created_at, is_deleting, labels_of, metadata_of, read_time

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
# The kubelet writes the first Ready=False together with Initialized=True; a later one means that the pod was ready in between.
_FIRST_STATUS = timedelta(seconds=2)


def pod_from_object(pod: Manifest) -> Pod | None:
    """The engine pod, or None where its labels are not those of a slot's pod."""
    labels, metadata = labels_of(pod), metadata_of(pod)
    mode = labels.get(LABEL_MODE)
    if mode not in set(Mode) or LABEL_SLOT not in labels:
        return None
    status = pod.get("status") or {}
    engine = _engine_status(pod)
    ready = condition(pod, "Ready")
    is_ready = ready.get("status") == "True"
    waiting = _waiting(pod)
    restarts = sum(int(found.get("restartCount") or 0) for found in container_statuses(pod))
    was_ready = is_ready or (engine.get("started") is True and "running" in (engine.get("state") or {}))
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        slot=labels[LABEL_SLOT],
        mode=Mode(mode),
        digest=labels.get(LABEL_TEMPLATE_DIGEST, ""),
        ip=status.get("podIP") or None,
        node=(pod.get("spec") or {}).get("nodeName") or None,
        created_at=created_at(pod),
        ready=is_ready,
        ready_since=read_time(ready.get("lastTransitionTime")) if is_ready else None,
        was_ready=was_ready,
        serving=labels.get(LABEL_SERVING) != "false",
        terminating=is_deleting(pod),
        finished=status.get("phase") in {"Succeeded", "Failed"},
        crash_looping=waiting.get("reason") == "CrashLoopBackOff" or (restarts > 0 and not was_ready and not _was_ever_ready(pod)),
        restarts=restarts,
        waiting_reason=waiting.get("reason"),
        waiting_message=waiting.get("message"),
        unschedulable=_unschedulable(pod),
    )


def _engine_status(pod: Manifest) -> dict[str, Any]:
    for found in (pod.get("status") or {}).get("containerStatuses") or ():
        if found.get("name") == ENGINE_CONTAINER:
            return dict(found)
    return {}


def _waiting(pod: Manifest) -> dict[str, Any]:
    """The state of a container that cannot start; plain start-up is no trouble."""
    for found in container_statuses(pod):
        waiting = (found.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _STARTING:
            return dict(waiting)
    return {}


def _was_ever_ready(pod: Manifest) -> bool:
    ready_changed = read_time(condition(pod, "Ready").get("lastTransitionTime"))
    first: datetime | None = read_time(condition(pod, "Initialized").get("lastTransitionTime"))
    return ready_changed is not None and first is not None and ready_changed > first + _FIRST_STATUS


def _unschedulable(pod: Manifest) -> str | None:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return scheduled.get("message") or "Unschedulable"
    return None
