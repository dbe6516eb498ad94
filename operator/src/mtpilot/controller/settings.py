"""kopf's settings for a level-based operator that writes through its own client.

Every wait is finite and every name is ours: kopf's defaults share finalizer and annotations with all other kopf operators,
wait five minutes for an answer, and give up on the API server after one.
"""

import kopf

from mtpilot.api.types import GROUP
from mtpilot.model.names import (
    COMPONENT_ENGINE,
    LABEL_COMPONENT,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)

_WATCH_SECONDS = 300  # NB: an int, since kopf puts it into the URL and the API server refuses "300.0"
_EXIT_SECONDS = 20.0
# Never written: no handler of ours needs it. It must not be our own finalizer, which kopf would take off again for that reason.
_KOPF_FINALIZER = f"{GROUP}/kopf"
OWNED_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
ENGINE_SELECTOR = f"{OWNED_SELECTOR},{LABEL_COMPONENT}={COMPONENT_ENGINE}"


def kopf_settings() -> kopf.OperatorSettings:
    """Settings for one process; the scope (namespaces) is an argument of `kopf.operator`."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True  # the CRDs are there before we start, and need no cluster-wide watch
    settings.posting.enabled = False  # we post our own events
    settings.persistence.finalizer = _KOPF_FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.watching.server_timeout = _WATCH_SECONDS
    settings.watching.client_timeout = _WATCH_SECONDS + 30
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    settings.watching.label_selectors["apps/v1", "deployments"] = OWNED_SELECTOR
    settings.watching.label_selectors["v1", "pods"] = ENGINE_SELECTOR
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = (1, 1, 2, 3, 5, 8, 13, 21, 30, 30, 30, 30)  # outlives an upgrade of the control plane
    settings.networking.enforce_retry_after = True
    settings.execution.default_backoff = 5
    settings.process.ultimate_exiting_timeout = _EXIT_SECONDS
    return settings
