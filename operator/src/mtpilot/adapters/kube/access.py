"""Where the API server is and how to prove who we are.

KUBECONFIG wins, then the pod's service account, then the user's default kubeconfig. Token files are read again every minute:
projected service account tokens rotate, and a client that keeps the first one is locked out after an hour.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.aio import config as kube_config
from kubernetes.aio.client.configuration import Configuration

from mtpilot.ports import ClusterError

_REFRESH_SECONDS = 60.0
_library: Any = kube_config  # untyped
_SCHEME = "bearer "
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The same access for a client that is not ours (kopf): paths of files, and the token as it is now."""

    server: str
    ca_path: str | None
    token: str | None
    certificate_path: str | None
    private_key_path: str | None
    insecure: bool


async def load_configuration() -> Configuration:
    """The client library's configuration, with a hook that renews the token.

    Raises:
        ClusterError: no usable kubeconfig and no service account.
    """
    configuration = await _load()
    loaded_at = time.monotonic()

    async def refresh(target: Configuration) -> None:
        nonlocal loaded_at
        if time.monotonic() - loaded_at < _REFRESH_SECONDS:
            return
        target.api_key.update((await _load()).api_key)
        loaded_at = time.monotonic()

    hooked: Any = configuration  # NB: the library types the hook as None
    hooked.refresh_api_key_hook = refresh
    return configuration


async def load_access() -> Access:
    """Read everything afresh; same errors as `load_configuration`."""
    configuration = await _load()
    token = configuration.api_key.get("BearerToken")
    return Access(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        token=token[len(_SCHEME) :].strip() if token and token.lower().startswith(_SCHEME) else token,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        insecure=not configuration.verify_ssl,
    )


def context_namespace() -> str:
    """The namespace that a command without one means: that of the kubeconfig's current context, or of this pod, else "default".

    A kubeconfig that cannot be read is no error here: whoever connects with it says what is wrong with it.
    """
    try:
        if _is_in_pod():
            return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
        _, current = _library.list_kube_config_contexts(config_file=os.environ.get("KUBECONFIG") or None)
        return str((current or {}).get("context", {}).get("namespace") or "default")
    except (kube_config.ConfigException, OSError, TypeError):
        return "default"


def _is_in_pod() -> bool:
    return not os.environ.get("KUBECONFIG") and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


async def _load() -> Configuration:
    configuration = Configuration()
    try:
        if _is_in_pod():
            _library.load_incluster_config(client_configuration=configuration, try_refresh_token=False)
        else:
            await _library.load_kube_config(
                config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration, persist_config=False
            )
    except (kube_config.ConfigException, OSError, TypeError) as error:
        raise ClusterError(f"no access to a cluster: {error} (set KUBECONFIG, or run in a pod with a service account)") from error
    return configuration
