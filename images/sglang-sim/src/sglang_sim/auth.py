"""Who may call what: SGLang's rule for --api-key and --admin-api-key.

Health and metrics are always open, so that probes and Prometheus need no secret. `/ready` is not: with --api-key set, a
readiness probe must carry the key, which is one reason why an operator closes the admin endpoints with the admin key alone.
"""

from __future__ import annotations

import secrets

OPEN_PREFIXES = ("/health", "/metrics")
ADMIN_PATHS = frozenset(
    {
        "/flush_cache",
        "/abort_request",
        "/pause_generation",
        "/continue_generation",
        "/set_internal_state",
        "/freeze_gc",
        "/sim/faults",
    }
)


def refusal(*, method: str, path: str, authorization: str | None, api_key: str | None, admin_api_key: str | None) -> int | None:
    """The status to refuse a request with, None where it may pass.

    Admin paths take the admin key, and only it, once one is set; else the API key; else anything. Other paths take the API key.
    """
    if method == "OPTIONS" or path.startswith(OPEN_PREFIXES):
        return None
    wanted = (admin_api_key or api_key) if path in ADMIN_PATHS else api_key
    if not wanted:
        return None
    scheme, _, token = (authorization or "").partition(" ")
    allowed = scheme.lower() == "bearer" and secrets.compare_digest(token.encode(), wanted.encode())
    return None if allowed else 401
