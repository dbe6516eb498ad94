"""Scalar types and the base class of every API model.

A CRD carries no floats: quantities, durations and decimals are strings with a pattern, so that what a person writes is
what the API server stores, and `kubectl diff` never shows a rounding.
"""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

GROUP = "mtpilot.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

# NB: CEL's duration is a 64-bit count of nanoseconds (292 years); the digit limits keep the sum of all parts below it.
DURATION_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$"
DECIMAL_PATTERN = r"^[0-9]+(\.[0-9]+)?$"
SIGNED_DECIMAL_PATTERN = r"^-?[0-9]+(\.[0-9]+)?$"
FRACTION_PATTERN = r"^(0(\.[0-9]+)?|1(\.0+)?)$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

Duration = Annotated[str, Field(pattern=DURATION_PATTERN, min_length=2, max_length=32)]
Decimal = Annotated[str, Field(pattern=DECIMAL_PATTERN, min_length=1, max_length=32)]
SignedDecimal = Annotated[str, Field(pattern=SIGNED_DECIMAL_PATTERN, min_length=1, max_length=32)]
Fraction = Annotated[str, Field(pattern=FRACTION_PATTERN, min_length=1, max_length=16)]
Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, min_length=1, max_length=32)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)]
EngineArg = Annotated[str, Field(min_length=1, max_length=1024)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)]
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN, max_length=64)]
Toleration = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "key": {"type": "string", "maxLength": 316, "description": "Taint key; without one every key matches"},
                "operator": {"type": "string", "enum": ["Equal", "Exists"], "description": "How key and value are matched. Default: Equal"},
                "value": {"type": "string", "maxLength": 63, "description": "Taint value, with operator Equal"},
                "effect": {
                    "type": "string",
                    "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                    "description": "Taint effect; without one every effect matches",
                },
                "tolerationSeconds": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 31_536_000,
                    "description": "With NoExecute: how long the taint is tolerated",
                },
            },
        }
    ),
]

# Marks a default that the API server shall store. All others are the operator's, so that a stored spec stays what was applied.
STORED_DEFAULT = {"x-mtpilot-stored-default": True}

_DURATION_PART = re.compile(r"([0-9]+)(ms|h|m|s)")
_UNIT_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


class ApiModel(BaseModel):
    """A part of a custom resource: camelCase outside, frozen, unknown fields kept out by the API server's own pruning."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


@lru_cache(maxsize=1024)  # the same few of every spec, at every tick
def parse_duration(text: str) -> timedelta:
    """A duration such as ``10m``, ``1h30m`` or ``250ms``.

    Raises:
        ValueError: the text is empty or has another form.
    """
    if not text or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"not a duration: {text!r} (like 90s, 10m, 1h30m)")
    return timedelta(milliseconds=sum(int(count) * _UNIT_MILLISECONDS[unit] for count, unit in _DURATION_PART.findall(text)))


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads back, to the millisecond; zero is ``0s``.

    Raises:
        ValueError: the value is negative.
    """
    if value < timedelta(0):
        raise ValueError(f"a duration is not negative: {value}")
    milliseconds = round(value / timedelta(milliseconds=1))
    parts = []
    for unit, size in _UNIT_MILLISECONDS.items():
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
