"""Labels, annotations and object names: each spelled once.

Names are derived, never stored, so that everything an InferenceService owns can be found again after a restart.
"""

from mtpilot.api.types import GROUP

FIELD_MANAGER = "mtpilot"
ROLLOUT_FIELD_MANAGER = "mtpilot-rollout"  # owns the rollout state annotation of a slot and the serving label of a pod
FINALIZER = f"{GROUP}/finalizer"

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "mtpilot"
LABEL_SERVICE = f"{GROUP}/service"
LABEL_COMPONENT = f"{GROUP}/component"  # engine | engine-worker | gateway
LABEL_SLOT = f"{GROUP}/slot"  # chat-r0
LABEL_MODE = f"{GROUP}/mode"  # mtp | batch
LABEL_SERVING = f"{GROUP}/serving"  # "false": the gateway sends no new request
LABEL_TEMPLATE_DIGEST = f"{GROUP}/template-digest"

ANNOTATION_DIGEST = f"{GROUP}/digest"  # of the rendered object, to apply only what changed
ANNOTATION_ROLLOUT_STATE = f"{GROUP}/rollout-state"  # JSON of model.slots.RolloutState

ANNOTATION_CALIBRATION = f"{GROUP}/calibration"  # the run that a Job or a ConfigMap is of
ANNOTATION_ENGINE_POD = f"{GROUP}/engine-pod"  # uid of the pod that a Job measures

COMPONENT_ENGINE = "engine"
COMPONENT_WORKER = "engine-worker"  # a further node of a replica: no client, gateway or Prometheus looks for it
COMPONENT_GATEWAY = "gateway"

COMPONENT_CALIBRATION = "calibration"

ENGINE_CONTAINER = "engine"
ENGINE_PORT = 30000
ENGINE_PORT_NAME = "http"
GATEWAY_PORT = 8080
GATEWAY_METRICS_PORT = 8405
AGENT_PORT = 8406
HAPROXY_IMAGE = "haproxy:2.8-alpine"
AGENT_IMAGE = "mtpilot:0.1.0"


def slot_name(service: str, index: int) -> str:
    return f"{service}-r{index}"


def slot_index(service: str, name: str) -> int | None:
    """The index of a slot's object name, or None where the name is not one of ours."""
    prefix = f"{service}-r"
    suffix = name.removeprefix(prefix)
    return int(suffix) if name.startswith(prefix) and suffix.isdecimal() else None


def gateway_name(service: str) -> str:
    return f"{service}-gateway"


def routing_name(service: str) -> str:
    """The ConfigMap that a gateway's agent reads while it runs."""
    return f"{gateway_name(service)}-routing"


def calibration_name(service: str) -> str:
    """The ConfigMap with what was measured, and the account of the Jobs that measure."""
    return f"{service}-calibration"


def calibration_job_name(service: str, mode: str) -> str:
    return f"{calibration_name(service)}-{mode}"


def calibrated_profile_name(service: str) -> str:
    """The profile that a calibration writes where the spec names none."""
    return f"{service}-calibrated"


def admin_secret_name(service: str) -> str:
    return f"{service}-admin"


ADMIN_SECRET_KEY = "admin-api-key"  # noqa: S105 - the name of a key, not a secret


def selector(service: str) -> str:
    """Label selector of a service's engine pods, as `/scale` reports it."""
    return f"{LABEL_SERVICE}={service},{LABEL_COMPONENT}={COMPONENT_ENGINE}"


def every_engine_selector(service: str) -> str:
    """Label selector of a service's engine pods with the workers of replicas over several nodes."""
    return f"{LABEL_SERVICE}={service},{LABEL_COMPONENT} in ({COMPONENT_ENGINE},{COMPONENT_WORKER})"


def service_labels(service: str, component: str) -> dict[str, str]:
    """Labels of everything that belongs to a service."""
    return {
        "app.kubernetes.io/name": "mtpilot",
        "app.kubernetes.io/instance": service,
        "app.kubernetes.io/component": component,
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_SERVICE: service,
        LABEL_COMPONENT: component,
    }
