"""Whether the cluster's CRDs know every field that this operator writes and reads.

The API server refuses a server-side apply of a field that the schema lacks, so that with older CRDs no status is ever written.
Fields that only the cluster knows do no harm: CRDs go before the operator.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import structlog

from mtpilot.api.crds import KINDS, crd
from mtpilot.api.types import VERSION
from mtpilot.model.snapshot import Manifest

from .client import ApiError, KubeClient
from .paths import CUSTOM_RESOURCE_DEFINITION, Ref

_SHOWN = 3
_log = structlog.get_logger(__name__)


async def outdated_definitions(client: KubeClient) -> tuple[str, ...]:
    """What is amiss with the served CRDs, a text for each; empty where all fit, or where they may not be read (a warning is logged).

    Raises:
        ClusterError: the API server does not answer.
    """
    found = []
    for kind in KINDS:
        try:
            served = await client.get(
                Ref(api_version=CUSTOM_RESOURCE_DEFINITION[0], kind=CUSTOM_RESOURCE_DEFINITION[1], name=kind.crd_name)
            )
        except ApiError as error:
            if error.status != 403:
                raise
            _log.warning("CRDs not compared with this operator's: the right to get customresourcedefinitions is missing", error=str(error))
            return ()
        if served is None:
            found.append(f"{kind.crd_name} is not there")
        elif missing := tuple(missing_fields(served, crd(kind))):
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            found.append(f"{kind.crd_name} lacks {', '.join(missing[:_SHOWN])}{more}")
    return tuple(found)


def missing_fields(served: Manifest, own: Manifest) -> Iterator[str]:
    """Paths like `status.loop.kind` of fields that `own` declares and `served` does not; of a missing part only its head."""
    yield from _missing(_schema(served), _schema(own), "")


def _schema(definition: Manifest) -> Mapping[str, Any]:
    versions = definition["spec"]["versions"]
    schema: Mapping[str, Any] = next((v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == VERSION and v.get("served")), {})
    return schema


def _missing(served: Mapping[str, Any], own: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    there = served.get("properties", {})
    for name, schema in own.get("properties", {}).items():
        if name in there:
            yield from _missing(there[name], schema, f"{path}{name}.")
        else:
            yield f"{path}{name}"
    for part in ("items", "additionalProperties"):
        if isinstance(own.get(part), dict):
            there = served.get(part)
            yield from _missing(there if isinstance(there, dict) else {}, own[part], path)
