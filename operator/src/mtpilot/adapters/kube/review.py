"""What mtpilot may do, asked of the API server at start.

A missing right otherwise shows up hours later, as a flip that stops half-way with a 403. The list is the operator's
ClusterRole: e2e/manifests/rbac-operator.yaml grants exactly this, and a test holds the two equal.
"""

import asyncio
from dataclasses import dataclass

from mtpilot.api.crds import KINDS

from .client import KubeClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A verb on a resource. `cluster`: needed outside any namespace, whatever namespaces are served.

    names: the only objects it is needed for; empty means all. optional: mtpilot works without it, so it is not asked for at start.
    """

    group: str
    resource: str
    verb: str
    subresource: str = ""
    cluster: bool = False
    names: tuple[str, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {name}.{self.group}" if self.group else f"{self.verb} {name}"


def _rights(group: str, resource: str, verbs: str, *, subresource: str = "", cluster: bool = False) -> tuple[Right, ...]:
    return tuple(Right(group=group, resource=resource, verb=verb, subresource=subresource, cluster=cluster) for verb in verbs.split())


RIGHTS: tuple[Right, ...] = (
    *_rights("mtpilot.dev", "inferenceservices", "get list watch patch"),
    *_rights("mtpilot.dev", "inferenceservices", "patch", subresource="status"),
    *_rights("mtpilot.dev", "inferenceservices", "update", subresource="finalizers"),
    *_rights("mtpilot.dev", "throughputprofiles", "get list watch create patch"),
    *_rights("mtpilot.dev", "throughputprofiles", "patch", subresource="status"),
    *_rights("mtpilot.dev", "hardwareclasses", "get list", cluster=True),
    *_rights("mtpilot.dev", "hardwareclasses", "patch", subresource="status", cluster=True),
    Right(
        group="apiextensions.k8s.io",
        resource="customresourcedefinitions",
        verb="get",
        cluster=True,
        names=tuple(sorted(kind.crd_name for kind in KINDS)),
        optional=True,
    ),
    *_rights("apps", "deployments", "get list watch create patch delete"),
    *_rights("apps", "replicasets", "list"),
    *_rights("apps", "statefulsets", "list"),
    *_rights("apps", "controllerrevisions", "list"),
    *_rights("leaderworkerset.x-k8s.io", "leaderworkersets", "get list create patch delete"),
    *_rights("batch", "jobs", "get list create patch delete"),
    *_rights("", "pods", "list watch patch"),
    *_rights("", "pods", "list", cluster=True),
    *_rights("", "nodes", "list", cluster=True),
    *_rights("", "secrets", "get create"),
    *_rights("", "services", "get list create patch"),
    *_rights("", "configmaps", "get list create patch"),
    *_rights("", "serviceaccounts", "get list create patch"),
    *_rights("", "events", "get create patch"),
    *_rights("policy", "poddisruptionbudgets", "get list create patch"),
    *_rights("rbac.authorization.k8s.io", "roles", "get list create patch"),
    *_rights("rbac.authorization.k8s.io", "rolebindings", "get list create patch"),
)


async def missing_rights(client: KubeClient, namespace: str | None) -> tuple[str, ...]:
    """Rights that are not granted, in words; `namespace` None asks for all namespaces."""
    needed = [right for right in RIGHTS if not right.optional]
    answers = await asyncio.gather(*(_is_allowed(client, right, None if right.cluster else namespace) for right in needed))
    return tuple(dict.fromkeys(str(right) for right, allowed in zip(needed, answers, strict=True) if not allowed))


async def _is_allowed(client: KubeClient, right: Right, namespace: str | None) -> bool:
    attributes = {"group": right.group, "resource": right.resource, "verb": right.verb, "subresource": right.subresource}
    if namespace is not None:
        attributes["namespace"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.review(review)
    return bool((answer.get("status") or {}).get("allowed"))
