"""The pod template of an engine in one mode.

Everything that differs between two modes, two releases or two specs is in here, and its digest says whether a replica has
to be replaced. Nothing in it depends on the operator's version, the time or what the cluster looks like.
"""

from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.names import (
    COMPONENT_ENGINE,
    ENGINE_PORT,
    LABEL_COMPONENT,
    LABEL_MODE,
    LABEL_SERVICE,
    LABEL_SERVING,
    LABEL_SLOT,
    LABEL_TEMPLATE_DIGEST,
    service_labels,
)
from mtpilot.model.snapshot import Manifest

from .container import engine_container
from .digest import pod_template_digest
from .overlay import apply_overlay
from .storage import pod_volumes
from .timing import grace_period_seconds


def pod_template(service: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode, *, slot: str) -> Manifest:
    """The template of a slot in a mode, with the user's overlay merged in and its own digest as a label.

    Raises:
        InvalidArguments: the spec cannot become a working pod; the message names the field.
    """
    template = unmarked_template(service, spec, hardware, mode)
    mark(template, slot=slot, digest=pod_template_digest(template))
    return template


def unmarked_template(service: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode) -> Manifest:
    """The template with the user's overlay merged in, the same for every slot. Raises InvalidArguments as pod_template."""
    return apply_overlay(_plain_template(service, spec, hardware, mode), spec.engine.pod_template, service=service)


def mark(template: Manifest, *, slot: str, digest: str) -> None:
    """Write the labels that tell whose template it is and which."""
    template["metadata"]["labels"].update({LABEL_SLOT: slot, LABEL_TEMPLATE_DIGEST: digest})


def _plain_template(service: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode) -> Manifest:
    return {
        "metadata": {
            "labels": {**service_labels(service, COMPONENT_ENGINE), LABEL_MODE: mode.value, LABEL_SERVING: "true"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(ENGINE_PORT), "prometheus.io/path": "/metrics"},
        },
        "spec": _pod_spec(service, spec, hardware, mode),
    }


def _pod_spec(service: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": grace_period_seconds(spec.rollout),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [_soft_spread(service)],
        "containers": [engine_container(service, spec, hardware, mode)],
        "volumes": pod_volumes(spec.model.cache),
    }
    if hardware.node_selector:
        pod["nodeSelector"] = dict(hardware.node_selector)
    if hardware.tolerations:
        pod["tolerations"] = [dict(toleration) for toleration in hardware.tolerations]
    return pod


def _soft_spread(service: str) -> dict[str, Any]:
    """Prefer another node for each replica, but never leave GPUs unused for it."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {LABEL_SERVICE: service, LABEL_COMPONENT: COMPONENT_ENGINE}},
    }
