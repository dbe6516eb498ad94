"""Scalar types and the base class of every API model.

A CRD carries no floats: quantities, durations and decimals are strings with a pattern, so that what a person writes is
what the API server stores, and `kubectl diff` never shows a rounding.
"""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "mtpilot.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

DURATION_PATTERN = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
DECIMAL_PATTERN = r"^[0-9]+(\.[0-9]+)?$"
FRACTION_PATTERN = r"^(0(\.[0-9]+)?|1(\.0+)?)$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$"

Duration = Annotated[str, Field(pattern=DURATION_PATTERN, min_length=2, max_length=32)]
Decimal = Annotated[str, Field(pattern=DECIMAL_PATTERN, min_length=1, max_length=32)]
Fraction = Annotated[str, Field(pattern=FRACTION_PATTERN, min_length=1, max_length=16)]
Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, min_length=1, max_length=32)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)]

_DURATION_PART = re.compile(r"([0-9]+)(ms|h|m|s)")
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class ApiModel(BaseModel):
    """A part of a custom resource: camelCase outside, frozen, unknown fields kept out by the API server's own pruning."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


def parse_duration(text: str) -> timedelta:
    """A duration such as ``10m``, ``1h30m`` or ``250ms``.

    Raises:
        ValueError: the text is empty or has another form.
    """
    if not re.fullmatch(DURATION_PATTERN, text) or not text:
        raise ValueError(f"not a duration: {text!r} (like 90s, 10m, 1h30m)")
    return timedelta(seconds=sum(int(n) * _UNIT_SECONDS[unit] for n, unit in _DURATION_PART.findall(text)))


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads back, to the millisecond; zero is ``0s``."""
    milliseconds = round(value.total_seconds() * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
