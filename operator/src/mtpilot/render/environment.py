"""The engine container's environment.

The pod's own address and uid go into the arguments through it, and secrets reach the process without standing in a
manifest. Variables that the arguments refer to are reserved; the rest a user may set.
"""

from typing import Any

from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.model.names import ADMIN_SECRET_KEY, admin_secret_name

from .errors import InvalidArguments
from .model_source import CACHE_PATH

POD_IP_VARIABLE = "POD_IP"
POD_UID_VARIABLE = "POD_UID"
POD_NAME_VARIABLE = "POD_NAME"
ADMIN_KEY_VARIABLE = "MTPILOT_ADMIN_API_KEY"
LEADER_ADDRESS_VARIABLE = "LWS_LEADER_ADDRESS"  # LeaderWorkerSet sets this and the next, over what a template says
WORKER_INDEX_VARIABLE = "LWS_WORKER_INDEX"
HUB_TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - a variable's name
HUB_HOME_VARIABLE = "HF_HOME"
KEEP_ALIVE_VARIABLE = "SGLANG_TIMEOUT_KEEP_ALIVE"  # seconds after which the engine closes a connection that carries no request
KEEP_ALIVE_SECONDS = 86_400  # far longer than the gateway keeps a connection that it does not need

RESERVED_VARIABLES = frozenset({POD_IP_VARIABLE, POD_UID_VARIABLE, POD_NAME_VARIABLE, ADMIN_KEY_VARIABLE})


def reference(variable: str) -> str:
    """How an argument names a variable for Kubernetes to fill in."""
    return f"$({variable})"


def engine_environment(service: str, spec: InferenceServiceSpec) -> list[dict[str, Any]]:
    """The `env` list: reserved variables first, then ours, then the user's; a user's HF_* or keep-alive replaces ours.

    Raises:
        InvalidArguments: the user sets a reserved variable.
    """
    own = [
        _field(POD_IP_VARIABLE, "status.podIP"),
        _field(POD_UID_VARIABLE, "metadata.uid"),
        _field(POD_NAME_VARIABLE, "metadata.name"),
        _secret(ADMIN_KEY_VARIABLE, admin_secret_name(service), ADMIN_SECRET_KEY),
    ]
    ours: list[dict[str, Any]] = [{"name": KEEP_ALIVE_VARIABLE, "value": str(KEEP_ALIVE_SECONDS)}]
    if spec.model.cache is not None:
        ours.append({"name": HUB_HOME_VARIABLE, "value": CACHE_PATH})
    if spec.model.token_secret is not None:
        ours.append(_secret(HUB_TOKEN_VARIABLE, spec.model.token_secret.name, spec.model.token_secret.key))
    for variable in spec.engine.env:
        if variable.name in RESERVED_VARIABLES:
            raise InvalidArguments(f"spec.engine.env[{variable.name}]", "is set by mtpilot")
    user = [{"name": variable.name, "value": variable.value} for variable in spec.engine.env]
    taken = {variable["name"] for variable in user}
    return [*own, *(variable for variable in ours if variable["name"] not in taken), *user]


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _secret(name: str, secret: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
