"""Conditions as everywhere in Kubernetes: a type, whether it holds, why, and since when."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .types import ApiModel, Timestamp

Text = Annotated[str, Field(max_length=1024)]
Reason = Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=64)]


class ConditionStatus(StrEnum):
    """The Kubernetes condition statuses."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class BaseCondition(ApiModel):
    """What the conditions of all kinds have; each kind narrows `type` to what can be said of it."""

    type: str = Field(description="What is said")
    status: ConditionStatus = Field(description="Whether it holds")
    reason: Reason = Field(description="Why, in one word")
    message: Text = Field(default="", description="Why, in plain words")
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this is said of")
    last_transition_time: Timestamp = Field(description="When `status` last changed")
