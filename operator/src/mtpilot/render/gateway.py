"""The gateway of a service: HAProxy and its agent in one pod, what they need, and the Service in front.

The gateway outlives every flip: nothing in it hangs on the replicas or their modes, so only a change of its own settings or
of mtpilot's images rolls it, and then one pod at a time, each finishing its streams.
"""

import hashlib
from typing import Any

from mtpilot.api.types import GROUP
from mtpilot.model.names import (
    COMPONENT_GATEWAY,
    GATEWAY_METRICS_PORT,
    GATEWAY_PORT,
    LABEL_COMPONENT,
    LABEL_SERVICE,
    gateway_name,
)
from mtpilot.model.snapshot import DEFAULT_IMAGES, GatewayImages, HardwareView, Manifest, Service

from .digest import DIGEST_LENGTH, with_digest
from .gateway_pod import gateway_pod_spec
from .haproxy import CONFIG_FILE, MODES_MAP_FILE, haproxy_config
from .haproxy_options import KEYS_MAP_FILE
from .owner import owned_object
from .routing import render_routing

ANNOTATION_CONFIG_DIGEST = f"{GROUP}/config-digest"
SERVICE_PORT = 80
SERVICE_TLS_PORT = 443


def render_gateway(
    service: Service, hardware: HardwareView | None = None, limit: int | None = None, images: GatewayImages = DEFAULT_IMAGES
) -> tuple[Manifest, ...]:
    """All objects of the gateway, in the order in which they are applied.

    `limit` is the contention limit, see `render.routing`. A gateway runs on any node: of `hardware` it only
    matters how its engines treat connections. `images`: default, the released ones by their short names.
    """
    config = haproxy_config(service.name, service.spec, hardware.spec if hardware else None)
    objects = (
        _config_map(service, config),
        _owned(service, "v1", "ServiceAccount"),
        _role(service),
        _role_binding(service),
        _deployment(service, config, images),
        _service(service),
        *((_disruption_budget(service),) if service.spec.gateway.replicas > 1 else ()),
    )
    return (render_routing(service, limit), *(with_digest(manifest) for manifest in objects))


def _owned(service: Service, api_version: str, kind: str, *, name: str | None = None, **fields: Any) -> Manifest:
    return owned_object(
        service, api_version=api_version, kind=kind, name=name or gateway_name(service.name), component=COMPONENT_GATEWAY, **fields
    )


def _selector(service: Service) -> dict[str, str]:
    return {LABEL_SERVICE: service.name, LABEL_COMPONENT: COMPONENT_GATEWAY}


def _config_map(service: Service, config: str) -> Manifest:
    return _owned(service, "v1", "ConfigMap", data={CONFIG_FILE: config, MODES_MAP_FILE: "", KEYS_MAP_FILE: ""})


def _role(service: Service) -> Manifest:
    """Reads pods of its namespace, nothing else: RBAC cannot narrow a list to labels."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    return _owned(service, "rbac.authorization.k8s.io/v1", "Role", rules=rules)


def _role_binding(service: Service) -> Manifest:
    name = gateway_name(service.name)
    return _owned(
        service,
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": service.namespace}],
    )


def _deployment(service: Service, config: str, images: GatewayImages) -> Manifest:
    labels = _owned(service, "apps/v1", "Deployment")["metadata"]["labels"]
    annotations = {
        ANNOTATION_CONFIG_DIGEST: hashlib.sha256(config.encode()).hexdigest()[:DIGEST_LENGTH],
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(GATEWAY_METRICS_PORT),
        "prometheus.io/path": "/metrics",
    }
    return _owned(
        service,
        "apps/v1",
        "Deployment",
        spec={
            "replicas": service.spec.gateway.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": _selector(service)},
            # A new pod takes requests before an old one leaves.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": gateway_pod_spec(service, images)},
        },
    )


def _service(service: Service) -> Manifest:
    """The name that clients use: the InferenceService's own."""
    name, port = ("https", SERVICE_TLS_PORT) if service.spec.gateway.tls else ("http", SERVICE_PORT)
    ports = [{"name": name, "port": port, "targetPort": GATEWAY_PORT, "protocol": "TCP", "appProtocol": name}]
    return _owned(service, "v1", "Service", name=service.name, spec={"type": "ClusterIP", "selector": _selector(service), "ports": ports})


def _disruption_budget(service: Service) -> Manifest:
    spec = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": _selector(service)}}
    return _owned(service, "policy/v1", "PodDisruptionBudget", spec=spec)
