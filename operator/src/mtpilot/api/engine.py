"""spec.engine of an InferenceService: what the user lays over the engine pod."""

from typing import Any

from pydantic import Field

from .types import ApiModel


class EnvVar(ApiModel):
    """An environment variable of the engine."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128, description="Name of the variable")
    value: str = Field(default="", max_length=4096, description="Its value")


class EngineSpec(ApiModel):
    """Overlays on the engine pod."""

    image: str | None = Field(default=None, min_length=1, max_length=512, description="Engine image; default: the hardware class's")
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=64,
        description="Environment of the engine container",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    resources: dict[str, Any] | None = Field(
        default=None, description="Overlay of the engine container's resources; GPUs come from the hardware class"
    )
    pod_template: dict[str, Any] | None = Field(
        default=None, description="Overlay merged into the pod template: lists of named objects by name"
    )
