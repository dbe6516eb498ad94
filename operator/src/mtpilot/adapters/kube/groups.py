"""LeaderWorkerSets as they are read: templates, older templates, and which pod belongs to which group.

LeaderWorkerSet makes a StatefulSet for the leader and, owned by the leader's pod, one for its workers; both carry the label that names
the set. It keeps an older template as a ControllerRevision until all pods of a newer one are ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import COMPONENT_WORKER, LABEL_COMPONENT, LABEL_MODE, LABEL_TEMPLATE_DIGEST
from mtpilot.model.slots import Pod, TemplateRevision
from mtpilot.model.snapshot import Manifest

from .fields import is_owned, labels_of, metadata_of
from .pods import pod_from_object

SET_NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
_PATCH = "$patch"  # a ControllerRevision holds a strategic merge patch


def leader_template(spec: Mapping[str, Any]) -> Manifest:
    """The leader's pod template of a LeaderWorkerSet's spec, or an empty one."""
    found: Manifest = (spec.get("leaderWorkerTemplate") or {}).get("leaderTemplate") or {}
    return found


def mode_of(labels: Mapping[str, str]) -> Mode | None:
    text = labels.get(LABEL_MODE)
    return Mode(text) if text in set(Mode) else None


def group_revisions(kept: Sequence[Manifest], uid: str) -> tuple[TemplateRevision, ...]:
    """Templates that the LeaderWorkerSet of that uid still keeps, newest first."""
    found: list[tuple[int, TemplateRevision]] = []
    for revision in kept:
        spec = (revision.get("data") or {}).get("spec") or {}
        labels = labels_of(leader_template(spec))
        mode, digest = mode_of(labels), labels.get(LABEL_TEMPLATE_DIGEST)
        if not is_owned(revision, uid) or mode is None or not digest:
            continue
        template = {name: value for name, value in spec["leaderWorkerTemplate"].items() if name != _PATCH}
        found.append((int(revision.get("revision") or 0), TemplateRevision(digest=digest, mode=mode, template=template)))
    return tuple(revision for _, revision in sorted(found, key=lambda item: item[0], reverse=True))


def is_worker(pod: Manifest) -> bool:
    return labels_of(pod).get(LABEL_COMPONENT) == COMPONENT_WORKER


def with_trouble_of_workers(leader: Pod, pods: Sequence[Manifest], stateful_sets: Sequence[Manifest]) -> Pod:
    """The leader, with what keeps its first troubled worker from starting where nothing keeps the leader itself."""
    if leader.waiting_reason or leader.unschedulable:
        return leader
    owned = {metadata_of(found)["uid"] for found in stateful_sets if is_owned(found, leader.uid)}
    for obj in pods:
        worker = pod_from_object(obj) if is_worker(obj) and any(is_owned(obj, uid) for uid in owned) else None
        if worker is not None and (worker.waiting_reason or worker.unschedulable):
            words = worker.waiting_message or worker.waiting_reason
            return replace(
                leader,
                waiting_reason=worker.waiting_reason,
                waiting_message=f"{worker.name}: {words}" if worker.waiting_reason else None,
                unschedulable=f"{worker.name}: {worker.unschedulable}" if worker.unschedulable else None,
            )
    return leader
