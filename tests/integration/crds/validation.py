"""What the API server says to an object: a dry run over one connection, with strict field validation and all causes.

A dry run passes the whole of validation, CEL included, and writes nothing, so that hundreds of samples take seconds.
"""

from dataclasses import dataclass
from typing import Any

from e2e.clusters.kube import MERGE, KubeClient
from mtpilot.api.crds import KINDS
from mtpilot.api.types import API_VERSION

_KIND = {kind.kind: kind for kind in KINDS}
_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "samples"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One entry of a Status' `details.causes`."""

    field: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The answer to an object that was not taken."""

    code: int
    message: str
    causes: tuple[Cause, ...]

    def at(self, field: str) -> str:
        """All that is said of one field."""
        return "\n".join(f"{cause.reason}: {cause.message}" for cause in self.causes if cause.field == field)


async def try_create(client: KubeClient, document: dict[str, Any], namespace: str) -> Refusal | None:
    """Create an object in a dry run; None when the API server takes it."""
    return await _send(client, "POST", _collection(document["kind"], namespace), document)


async def try_status(client: KubeClient, kind: str, name: str, status: Any, namespace: str) -> Refusal | None:
    """Merge a status into a stored object in a dry run; None when the API server takes it."""
    return await _send(client, "PATCH", f"{_collection(kind, namespace)}/{name}/status", {"status": status})


def _collection(kind: str, namespace: str) -> str:
    place = f"/namespaces/{namespace}" if _KIND[kind].scope == "Namespaced" else ""
    return f"/apis/{API_VERSION}{place}/{_KIND[kind].plural}"


async def _send(client: KubeClient, method: str, path: str, body: dict[str, Any]) -> Refusal | None:
    headers = {"Content-Type": MERGE} if method == "PATCH" else {}
    url = client.config.server + path
    async with client.session.request(method, url, json=body, params=_DRY_RUN, headers=headers) as answer:
        status = await answer.json()
        if answer.status < 400:
            return None
        causes = status.get("details", {}).get("causes", [])
        return Refusal(
            code=answer.status,
            message=status["message"],
            causes=tuple(Cause(field=c.get("field", ""), reason=c.get("reason", ""), message=c["message"]) for c in causes),
        )
