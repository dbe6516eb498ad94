"""The gateway's pod: the haproxy and the agent container, their probes, and an end that breaks no stream.

How it ends: the hook leaves time for clients to learn of it and for waiting requests to find a replica, then asks HAProxy
for a soft stop (no new connections, open requests finish) and stays until HAProxy is gone. So the signal that follows does
not matter: the official image names a soft one, other runtimes send SIGTERM, which would cut every stream.
"""

from typing import Any

from mtpilot.model.names import (
    AGENT_PORT,
    COMPONENT_GATEWAY,
    GATEWAY_METRICS_PORT,
    GATEWAY_PORT,
    LABEL_COMPONENT,
    LABEL_SERVICE,
    gateway_name,
    routing_name,
)
from mtpilot.model.snapshot import DEFAULT_IMAGES, GatewayImages, Service

from .haproxy import ADMIN_SOCKET_FILE, CONFIG_FILE, HEALTH_PATH, NOTHING_WAITS_FILE, RUN_DIR_ENV
from .haproxy_options import TLS_DIR_ENV
from .overlay_parts import pull_secrets
from .timing import whole_seconds

CONFIG_DIR = "/usr/local/etc/haproxy"
RUN_DIR = "/var/run/mtpilot"
ROUTING_DIR = "/etc/mtpilot/routing"
API_KEYS_DIR = "/etc/mtpilot/api-keys"
TLS_DIR = "/etc/mtpilot/tls"
API_ACCESS_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
PID_FILE = "haproxy.pid"
USER_ID = 65532

LEAVE_SECONDS = 5  # for the Service's endpoints, and whoever follows them, to drop this pod
STOP_MARGIN_SECONDS = 30

_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def gateway_pod_spec(service: Service, images: GatewayImages = DEFAULT_IMAGES) -> dict[str, Any]:
    """The pod spec of the gateway's Deployment."""
    keys, tls = service.spec.gateway.api_keys, service.spec.gateway.tls
    return {
        "serviceAccountName": gateway_name(service.name),
        **_pull_secrets(service, images),
        "automountServiceAccountToken": False,  # HAProxy faces the clients: the token is the agent's alone
        "terminationGracePeriodSeconds": stop_grace_seconds(service),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": _spread(service),
        "containers": [_haproxy(service, images.haproxy), _agent(service, images.agent)],
        "volumes": [
            {"name": "config", "configMap": {"name": gateway_name(service.name)}},
            {"name": "routing", "configMap": {"name": routing_name(service.name), "optional": True}},
            *_optional("api-keys", _secret(keys.secret_name) if keys else None),
            *_optional("tls", _secret(tls.secret_name) if tls else None),
            {"name": "sockets", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {"name": "api-access", "projected": {"sources": _api_access()}},
        ],
    }


def _pull_secrets(service: Service, images: GatewayImages) -> dict[str, Any]:
    """The engine's own, since a mirror usually has all images, and those that the operator was told."""
    names = dict.fromkeys((*pull_secrets(service.spec.engine.pod_template), *images.pull_secrets))
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _secret(name: str) -> dict[str, Any]:
    return {"secret": {"secretName": name, "defaultMode": 0o440}}


def _optional(name: str, what: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A volume or a mount, where there is one."""
    return [{"name": name, **what}] if what else []


def _tls_mount(service: Service) -> list[dict[str, Any]]:
    """HAProxy's, which loads the certificate, and the agent's, which sees that it was renewed."""
    return _optional("tls", {"mountPath": TLS_DIR, "readOnly": True} if service.spec.gateway.tls else None)


def _api_access() -> list[dict[str, Any]]:
    """What Kubernetes mounts into every container unless told not to."""
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]


def stop_grace_seconds(service: Service) -> int:
    """A request may wait its whole queue time and then run as long as a drain gives it."""
    return _queue_seconds(service) + whole_seconds(service.spec.rollout.drain_timeout) + LEAVE_SECONDS + STOP_MARGIN_SECONDS


def stop_script(service: Service) -> str:
    """The hook, for any POSIX shell; it has its own end, should the agent be gone."""
    run_dir = f"${RUN_DIR_ENV}"
    return (
        f"sleep {LEAVE_SECONDS}; left={_queue_seconds(service)}; "
        f'while [ ! -e "{run_dir}/{NOTHING_WAITS_FILE}" ] && [ "$left" -gt 0 ]; do sleep 1; left=$((left - 1)); done; '
        f'pid=$(cat "{run_dir}/{PID_FILE}") && kill -USR1 "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 1; done'
    )


def _queue_seconds(service: Service) -> int:
    return whole_seconds(service.spec.gateway.queue_timeout)


def _spread(service: Service) -> dict[str, Any]:
    """Gateways of one service on different nodes where that is possible."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {LABEL_SERVICE: service.name, LABEL_COMPONENT: COMPONENT_GATEWAY}},
    }
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}


def _environment() -> list[dict[str, Any]]:
    return [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": RUN_DIR_ENV, "value": RUN_DIR},
    ]


def _haproxy(service: Service, image: str) -> dict[str, Any]:
    """Master-worker, so that a later reload keeps connections, and for the pid file that the hook reads."""
    return {
        "name": "haproxy",
        "image": image,
        "command": ["haproxy", "-W", "-db", "-p", f"{RUN_DIR}/{PID_FILE}", "-f", f"{CONFIG_DIR}/{CONFIG_FILE}"],
        "env": [*_environment(), *_optional(TLS_DIR_ENV, {"value": TLS_DIR} if service.spec.gateway.tls else None)],
        "ports": [{"name": "http", "containerPort": GATEWAY_PORT}, {"name": "metrics", "containerPort": GATEWAY_METRICS_PORT}],
        # No liveness probe: a restart would break every open stream, and a HAProxy that hangs for good ends by its own watchdog.
        "readinessProbe": _probe(HEALTH_PATH, GATEWAY_PORT, period=2, failures=3, scheme="HTTPS" if service.spec.gateway.tls else "HTTP"),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", stop_script(service)]}}},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": _SECURITY,
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
            {"name": "sockets", "mountPath": RUN_DIR},
            *_tls_mount(service),
        ],
    }


def _agent(service: Service, image: str) -> dict[str, Any]:
    return {
        "name": "agent",
        "image": image,
        "command": ["mtpilot", "gateway-agent"],
        "args": [
            "--service",
            service.name,
            "--namespace",
            service.namespace,
            "--socket",
            f"{RUN_DIR}/{ADMIN_SOCKET_FILE}",
            "--port",
            str(AGENT_PORT),
            "--routing",
            ROUTING_DIR,
            *(("--api-keys", API_KEYS_DIR) if service.spec.gateway.api_keys else ()),
            *(("--tls", TLS_DIR) if service.spec.gateway.tls else ()),
        ],
        "env": _environment(),
        "ports": [{"name": "agent", "containerPort": AGENT_PORT}],
        "readinessProbe": _probe("/healthz", AGENT_PORT, period=2, failures=3),
        # On a busy node Python needs longer to load than a hang may last.
        "startupProbe": {**_probe("/livez", AGENT_PORT, period=1, failures=120), "terminationGracePeriodSeconds": 5},
        # An agent that hangs has nothing to finish, so it does not get the pod's long grace.
        "livenessProbe": {**_probe("/livez", AGENT_PORT, period=10, failures=3), "terminationGracePeriodSeconds": 5},
        "resources": {"requests": {"cpu": "20m", "memory": "112Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": _SECURITY,
        "volumeMounts": [
            {"name": "sockets", "mountPath": RUN_DIR},
            {"name": "routing", "mountPath": ROUTING_DIR, "readOnly": True},
            # The clients' keys are the agent's alone: HAProxy gets hashes.
            *_optional("api-keys", {"mountPath": API_KEYS_DIR, "readOnly": True} if service.spec.gateway.api_keys else None),
            *_tls_mount(service),
            {"name": "api-access", "mountPath": API_ACCESS_DIR, "readOnly": True},
        ],
    }


def _probe(path: str, port: int, *, period: int, failures: int, scheme: str = "HTTP") -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": port, "scheme": scheme},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
