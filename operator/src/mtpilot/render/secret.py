"""The Secret with the engines' admin key.

SGLang's admin endpoints (flush, weights, internal state) are open unless it gets an admin key. The value is generated once
by the executor, never rendered, so it is in no digest, plan or log of ours.
"""

from mtpilot.model.names import ADMIN_SECRET_KEY, COMPONENT_ENGINE, admin_secret_name
from mtpilot.model.plan import EnsureSecret
from mtpilot.model.snapshot import Service

from .digest import with_digest
from .owner import owned_object


def render_admin_secret(service: Service) -> EnsureSecret:
    """The Secret without data; the executor puts a random value under `key` unless there is one."""
    manifest = owned_object(
        service,
        api_version="v1",
        kind="Secret",
        name=admin_secret_name(service.name),
        component=COMPONENT_ENGINE,
        type="Opaque",
    )
    return EnsureSecret(manifest=with_digest(manifest), key=ADMIN_SECRET_KEY)
