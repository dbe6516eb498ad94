"""Parts of a user's pod template that the gateway goes by as well.

The template may have any shape: what is wrong with it is told where the engine is rendered, and here it is as if left out, so
that a slip in it never rolls the gateway.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mtpilot.model.names import ENGINE_CONTAINER


def engine_variables(overlay: Any) -> list[Mapping[str, Any]]:
    """The engine container's environment variables."""
    engines = [one for one in _objects(_pod(overlay).get("containers")) if one.get("name") == ENGINE_CONTAINER]
    return [variable for engine in engines for variable in _objects(engine.get("env"))]


def pull_secrets(overlay: Any) -> list[str]:
    """Names of the Secrets that images are pulled with."""
    return [name for secret in _objects(_pod(overlay).get("imagePullSecrets")) if isinstance(name := secret.get("name"), str) and name]


def _pod(overlay: Any) -> Mapping[str, Any]:
    pod = overlay.get("spec") if isinstance(overlay, Mapping) else None
    return pod if isinstance(pod, Mapping) else {}


def _objects(value: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []
