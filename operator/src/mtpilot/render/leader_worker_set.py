"""The LeaderWorkerSet of a replica slot over several nodes.

One group of `nodesPerReplica` pods, of which each runs one SGLang process with its share of the GPUs. Only the first serves: it has
the labels, probes and grace of any engine pod. The others have a component of their own, so that no gateway, Service, budget or
Prometheus takes them for an engine; they hold no request and end with their leader. A group lives and dies as a whole, since SGLang
cannot replace a single rank.

Needs LeaderWorkerSet 0.7 or later, which names leader and rank in LWS_LEADER_ADDRESS and LWS_WORKER_INDEX.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.names import COMPONENT_WORKER, LABEL_COMPONENT, LABEL_SERVING, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.model.snapshot import Manifest

from .digest import digest
from .engine import mark, unmarked_template
from .overlay import engine_container
from .timing import SHUTDOWN_SECONDS

LEADER, WORKER = "leaderTemplate", "workerTemplate"
_LEADER_ONLY = ("startupProbe", "readinessProbe", "lifecycle")  # a further rank answers no request that could be lost


def group_template(service: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode, *, slot: str) -> Manifest:
    """The `leaderWorkerTemplate` of a slot in a mode; both its pod templates carry the digest of the whole as a label.

    Raises:
        InvalidArguments: the spec cannot become working pods; the message names the field.
    """
    leader = unmarked_template(service, spec, hardware, mode)
    group: dict[str, Any] = {
        "size": hardware.nodes_per_replica,
        "restartPolicy": "RecreateGroupOnPodRestart",
        LEADER: leader,
        WORKER: _worker(leader),
    }
    value = group_digest(group)
    for part in (LEADER, WORKER):
        mark(group[part], slot=slot, digest=value)
    return group


def group_digest(group: Mapping[str, Any]) -> str:
    """Digest of a `leaderWorkerTemplate` without its own digest labels and without the slot's name."""
    plain = deepcopy(dict(group))
    for part in (LEADER, WORKER):
        for label in (LABEL_TEMPLATE_DIGEST, LABEL_SLOT):
            plain[part]["metadata"]["labels"].pop(label, None)
    return digest(plain)


def group_spec(group: Manifest) -> dict[str, Any]:
    """The `spec` around a template: one group, the old one gone before the new one asks for its GPUs."""
    return {
        "replicas": 1,
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0}},
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": group,
    }


def _worker(leader: Manifest) -> Manifest:
    template = deepcopy(leader)
    labels = template["metadata"]["labels"]
    labels.pop(LABEL_SERVING, None)
    labels |= {LABEL_COMPONENT: COMPONENT_WORKER, "app.kubernetes.io/component": COMPONENT_WORKER}
    annotations = template["metadata"]["annotations"]
    template["metadata"]["annotations"] = {name: value for name, value in annotations.items() if not name.startswith("prometheus.io/")}
    template["spec"]["terminationGracePeriodSeconds"] = SHUTDOWN_SECONDS
    template["spec"].pop("topologySpreadConstraints", None)
    container = engine_container(template)
    for name in _LEADER_ONLY:
        container.pop(name, None)
    return template
