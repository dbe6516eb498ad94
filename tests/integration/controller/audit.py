"""Writes of one account, counted in the API server's audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ACCOUNT = "system:serviceaccount:mtpilot-system:mtpilot"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_QUESTIONS = frozenset({"selfsubjectaccessreviews"})  # posted, but nothing is written


def size(path: Path) -> int:
    """Where the log ends now."""
    return path.stat().st_size


def writes(path: Path, *, since: int, namespace: str | None = None, account: str = ACCOUNT) -> list[str]:
    """Write requests of the account after byte `since`, as "verb resource/name status"."""
    found = []
    with path.open("rb") as log:
        log.seek(since)
        for line in log:
            event: dict[str, Any] = json.loads(line)
            target = event.get("objectRef") or {}
            if event.get("stage") != "ResponseComplete" or event["verb"] not in _WRITES or target.get("resource") in _QUESTIONS:
                continue
            if event["user"].get("username") == account and namespace in (None, target.get("namespace")):
                code = (event.get("responseStatus") or {}).get("code")
                resource = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
                found.append(f"{event['verb']} {resource} {target.get('name')} {code}")
    return found


def refusals(path: Path) -> list[str]:
    """Requests of the operator or of a gateway's agent that were refused for lack of rights.

    A gateway's Role goes with its service, so what an agent asks after that does not count; nor does what is granted at another
    time: an API server that has just started refuses for a moment, until it knows the roles.
    """
    refused: list[str] = []
    going: set[str] = set()
    granted: set[str] = set()
    with path.open("rb") as log:
        for line in log:
            event: dict[str, Any] = json.loads(line)
            target = event.get("objectRef") or {}
            namespace, user = target.get("namespace"), event.get("user", {}).get("username", "")  # NB: empty while the API server starts
            if event["verb"] in {"delete", "deletecollection"} and target.get("resource") in {"namespaces", "inferenceservices"}:
                going.add(str(target.get("name") if target["resource"] == "namespaces" else namespace))
            of_ours = user == ACCOUNT or user.endswith("-gateway")
            request = f"{user}: {event['verb']} {event['requestURI'].partition('?')[0]}"
            code = (event.get("responseStatus") or {}).get("code")
            if of_ours and code == 200:
                granted.add(request)
            if of_ours and namespace not in going and code == 403:
                refused.append(request)
    return [request for request in refused if request not in granted]
