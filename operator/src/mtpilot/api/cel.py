"""CEL rules as data, and CEL expressions that read optional fields with the models' own defaults.

The CRD stores almost no defaults, so a rule has to know what an absent field means. `value` takes that from the model: a
default is written once.
"""

import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pydantic_core import PydanticUndefined

from .types import ApiModel


class Reason(StrEnum):
    """The API server's reasons for a refused field."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One `x-kubernetes-validations` entry.

    Attributes:
        name: unique; the samples refer to it.
        expression: CEL; true accepts.
        message: names the field; also the fallback of `message_expression`.
        message_expression: CEL that gives a message with the offending value.
        field_path: relative to the place of the rule, like `.pinned`; None points at that place itself.
        tells_form: the rule holds a string to its form too, so that the schema carries no pattern beside it.
    """

    name: str
    expression: str
    message: str
    message_expression: str | None = None
    field_path: str | None = None
    reason: Reason = Reason.INVALID
    tells_form: bool = False

    def to_schema(self) -> dict[str, str]:
        """The entry as the CRD carries it."""
        entry = {"rule": self.expression, "message": self.message}
        if self.message_expression is not None:
            entry["messageExpression"] = self.message_expression
        if self.field_path is not None:
            entry["fieldPath"] = self.field_path
        entry["reason"] = self.reason.value
        return entry


def value(model: type[ApiModel], path: str) -> str:
    """A CEL expression for a field below `self`, with the model's default where the field is absent.

    Raises:
        LookupError: the model has no such field, or the field may be absent and has no default.
    """
    expression, optional, default = "self", False, PydanticUndefined
    current: type[ApiModel] | None = model
    for alias in path.split("."):
        if current is None:
            raise LookupError(f"{model.__name__}.{path}: {alias} is below a scalar")
        field = next((f for f in current.model_fields.values() if f.alias == alias), None)
        if field is None:
            raise LookupError(f"{current.__name__} has no field {alias}")
        optional = optional or not (field.is_required() or _is_stored(field.json_schema_extra))
        expression += f".?{alias}" if optional else f".{alias}"
        default = field.get_default()
        current = _model_of(field.annotation)
    if not optional:
        return expression
    if default is PydanticUndefined or default is None:
        raise LookupError(f"{model.__name__}.{path} has no default: test it with has()")
    return f"{expression}.orValue({literal(default)})"


def literal(item: object) -> str:
    """A scalar as a CEL literal."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    return "'" + str(item).replace("\\", "\\\\").replace("'", "\\'") + "'"


def literals(items: Iterable[str]) -> str:
    """Strings as a CEL list."""
    return "[" + ", ".join(literal(item) for item in items) + "]"


def _is_stored(extra: object) -> bool:
    return isinstance(extra, dict) and bool(extra.get("x-mtpilot-stored-default"))


def _model_of(annotation: object) -> type[ApiModel] | None:
    candidates = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, ApiModel)), None)
