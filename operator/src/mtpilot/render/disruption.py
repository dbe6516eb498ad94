"""The PodDisruptionBudget of the engine pods.

Evictions (node drains, upgrades) take one replica at a time and wait for the one that a flip has taken already. A pod that
is not ready holds no request, so it may always be evicted: a broken replica must not block a node drain. A worker counts like its
leader: without it the replica ends.
"""

from mtpilot.model.names import COMPONENT_ENGINE, COMPONENT_WORKER, LABEL_COMPONENT, LABEL_SERVICE
from mtpilot.model.snapshot import Manifest, Service

from .digest import with_digest
from .owner import owned_object


def disruption_budget_name(service: str) -> str:
    return f"{service}-engine"


def render_disruption_budget(service: Service) -> Manifest:
    """At most one engine pod of the service is unavailable by eviction, over all its slots."""
    return with_digest(
        owned_object(
            service,
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            name=disruption_budget_name(service.name),
            component=COMPONENT_ENGINE,
            spec={
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {
                    "matchLabels": {LABEL_SERVICE: service.name},
                    "matchExpressions": [{"key": LABEL_COMPONENT, "operator": "In", "values": [COMPONENT_ENGINE, COMPONENT_WORKER]}],
                },
            },
        )
    )
