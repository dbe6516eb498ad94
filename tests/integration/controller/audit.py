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
            if event["user"]["username"] == account and namespace in (None, target.get("namespace")):
                code = (event.get("responseStatus") or {}).get("code")
                resource = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
                found.append(f"{event['verb']} {resource} {target.get('name')} {code}")
    return found
