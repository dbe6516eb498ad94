"""Ownership and common metadata of every object of a service.

Only what carries our owner reference and labels is ever changed or deleted, and Kubernetes itself collects the rest when
the InferenceService goes; so no object may be rendered without them.
"""

from typing import Any

from mtpilot.api.types import API_VERSION
from mtpilot.model.names import service_labels
from mtpilot.model.snapshot import Manifest, Service

OWNER_KIND = "InferenceService"


def owner_reference(service: Service) -> dict[str, Any]:
    """The controlling owner reference to the service; owner and object are always in one namespace."""
    return {
        "apiVersion": API_VERSION,
        "kind": OWNER_KIND,
        "name": service.name,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_object(
    service: Service, *, api_version: str, kind: str, name: str, component: str, labels: dict[str, str] | None = None, **fields: Any
) -> Manifest:
    """An object of the service: common metadata plus `fields` (spec, data, type, …). `labels` are added to the common ones."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": service.namespace,
            "labels": {**(labels or {}), **service_labels(service.name, component)},
            "ownerReferences": [owner_reference(service)],
        },
        **fields,
    }
