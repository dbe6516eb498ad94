"""What a calibration makes: the account of its Jobs, the ConfigMap they write to, a Job for each mode, and the profile at the end.

A Job runs mtpilot's own image and needs no GPU. Its account may read and change one ConfigMap and nothing else: the profile is written by
the operator, which has looked at what was measured.
"""

import re
from typing import Any

from mtpilot.api.inference_service import InferenceServiceSpec, Mode, Sampling
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.api.types import API_VERSION
from mtpilot.model.names import (
    ANNOTATION_CALIBRATION,
    ANNOTATION_ENGINE_POD,
    COMPONENT_CALIBRATION,
    ENGINE_PORT,
    LABEL_COMPONENT,
    LABEL_MANAGED_BY,
    LABEL_MODE,
    LABEL_SLOT,
    MANAGED_BY,
    calibrated_profile_name,
    calibration_job_name,
    calibration_name,
)
from mtpilot.model.slots import Pod, Slot
from mtpilot.model.snapshot import GatewayImages, HardwareView, Manifest, Service

from .arguments import engine_image
from .digest import with_digest
from .owner import owned_object

EVIDENCE_DIR = "/evidence"
USER_ID = 65532
_RETRIES = 3  # of a pod that was evicted or lost its node; what it had measured is kept
_LONGEST_SECONDS = 6 * 3600
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
# NB: not the service's label: whatever carries that, and is no gateway, is an engine to the gateway's agent.
_POD_LABELS = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_COMPONENT: COMPONENT_CALIBRATION}
_SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def profile_name(service: Service) -> str:
    """The profile that a calibration of the service writes."""
    return service.spec.profile.name or calibrated_profile_name(service.name)


def render_calibration_access(service: Service) -> tuple[Manifest, ...]:
    """ServiceAccount, Role and RoleBinding of the Jobs."""
    name, group = calibration_name(service.name), "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "patch"]}]
    binding = {
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": service.namespace}],
    }
    objects = (
        _owned(service, "v1", "ServiceAccount", name),
        _owned(service, f"{group}/v1", "Role", name, rules=rules),
        _owned(service, f"{group}/v1", "RoleBinding", name, **binding),
    )
    return tuple(with_digest(manifest) for manifest in objects)


def render_records(service: Service, run: str) -> Manifest:
    """The ConfigMap, empty: what is in it is the Jobs' alone."""
    return _annotated(_owned(service, "v1", "ConfigMap", calibration_name(service.name)), {ANNOTATION_CALIBRATION: run})


def render_profile(service: Service, spec: ThroughputProfileSpec, flags_sha256: str | None) -> Manifest:
    """The profile, owned by the service. flags_sha256: of the arguments that the operator renders, as it will compare them later."""
    provenance = spec.provenance.model_copy(update={"flags_sha256": flags_sha256 or spec.provenance.flags_sha256})
    document = spec.model_copy(update={"provenance": provenance}).model_dump(mode="json", by_alias=True, exclude_none=True)
    return _owned(service, API_VERSION, "ThroughputProfile", profile_name(service), spec=document)


def render_job(service: Service, hardware: HardwareView, images: GatewayImages, *, run: str, slot: Slot, pod: Pod) -> Manifest:
    """The Job that measures one pod in the mode of its slot."""
    name = calibration_job_name(service.name, slot.mode)
    manifest = _owned(
        service,
        "batch/v1",
        "Job",
        name,
        labels={LABEL_MODE: slot.mode.value, LABEL_SLOT: slot.name},
        spec={
            "backoffLimit": _RETRIES,
            "activeDeadlineSeconds": _LONGEST_SECONDS,
            "template": {
                "metadata": {"labels": dict(_POD_LABELS)},
                "spec": _pod_spec(service, images.agent, _arguments(service, hardware, run, slot.mode, pod)),
            },
        },
    )
    return _annotated(manifest, {ANNOTATION_CALIBRATION: run, ANNOTATION_ENGINE_POD: pod.uid})


def _owned(service: Service, api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    return owned_object(service, api_version=api_version, kind=kind, name=name, component=COMPONENT_CALIBRATION, **fields)


def _annotated(manifest: Manifest, annotations: dict[str, str]) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def _arguments(service: Service, hardware: HardwareView, run: str, mode: Mode, pod: Pod) -> list[str]:
    spec = service.spec
    host = f"[{pod.ip}]" if pod.ip is not None and ":" in pod.ip else pod.ip
    told = spec.profile.run
    levels = [*map(str, sorted(told.concurrency)), "cap"] if told.concurrency else []
    return [
        "bench",
        f"{mode}=http://{host}:{ENGINE_PORT}",
        *("--out", f"{EVIDENCE_DIR}/{service.namespace}-{service.name}-{_UNSAFE.sub('-', run)}"),
        *("--keep-in", calibration_name(service.name)),
        *("--sampling", "greedy" if spec.workload.sampling is Sampling.GREEDY else "sampled"),
        *("--context", str(spec.workload.input_tokens)),
        *(("--concurrency", ",".join(levels)) if levels else ()),
        *(("--output-tokens", str(told.output_tokens)) if told.output_tokens is not None else ()),
        *("--repeats", str(told.repeats)),
        *(() if told.records_claim is not None else ("--no-plots",)),
        *_facts(spec, hardware),
    ]


def _facts(spec: InferenceServiceSpec, hardware: HardwareView) -> list[str]:
    """What the engines cannot tell, for the profile."""
    revision = ["--revision", spec.model.revision] if spec.model.revision is not None else []
    image = engine_image(spec, hardware.spec)
    return ["--hardware-class", spec.hardware_class, "--image", image, "--model-source", spec.model.source, *revision]


def _pod_spec(service: Service, image: str, arguments: list[str]) -> dict[str, Any]:
    claim = service.spec.profile.run.records_claim
    kept = {"persistentVolumeClaim": {"claimName": claim}} if claim is not None else {"emptyDir": {"sizeLimit": "1Gi"}}
    return {
        "serviceAccountName": calibration_name(service.name),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "bench",
                "image": image,
                "command": ["mtpilot"],
                "args": arguments,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
                "securityContext": _SECURITY,
                "volumeMounts": [{"name": "evidence", "mountPath": EVIDENCE_DIR}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
            }
        ],
        "volumes": [{"name": "evidence", **kept}, {"name": "tmp", "emptyDir": {}}],
    }
