"""Our own linter of structural schemas: what the API server refuses, drops in silence, or lets grow without a bound.

`lint` gives one line for each finding, so that a test shows all of them at once.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_ALLOWED = {
    "object": {"properties", "required", "additionalProperties", "maxProperties", "minProperties", "x-kubernetes-preserve-unknown-fields"},
    "array": {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"},
    "string": {"format", "enum", "pattern", "minLength", "maxLength"},
    "integer": {"format", "minimum", "maximum"},
    "boolean": set(),
}
_COMMON = {"type", "description", "default", "x-kubernetes-validations"}
_RULE = {"rule", "message", "messageExpression", "reason", "fieldPath"}


def lint(schema: Schema, path: str, *, described: bool = True) -> Iterator[str]:
    """Findings in a schema and everything below it."""
    kind = schema.get("type")
    if kind not in _ALLOWED:
        yield f"{path}: type {kind!r}"
        return
    for keyword in sorted(set(schema) - _ALLOWED[kind] - _COMMON):
        yield f"{path}: keyword {keyword} on a {kind}"
    if described and not schema.get("description"):
        yield f"{path}: no description"
    yield from _lint_bounds(schema, path)
    yield from _lint_rules(schema, path)
    for name, child in schema.get("properties", {}).items():
        yield from lint(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from lint(schema[keyword], f"{path}.{keyword}", described=False)


def _lint_bounds(schema: Schema, path: str) -> Iterator[str]:
    match schema["type"]:
        case "string" if "enum" not in schema and "maxLength" not in schema:
            yield f"{path}: a string without maxLength"
        case "integer" if "minimum" not in schema:
            yield f"{path}: an integer without minimum"
        case "integer" if path.split(".")[1] == "spec" and "maximum" not in schema:
            yield f"{path}: an integer of a spec without maximum"
        case "array":
            yield from _lint_array(schema, path)
        case "object":
            yield from _lint_object(schema, path)


def _lint_array(schema: Schema, path: str) -> Iterator[str]:
    if "maxItems" not in schema:
        yield f"{path}: a list without maxItems"
    if "x-kubernetes-list-type" not in schema:
        yield f"{path}: a list without x-kubernetes-list-type"
    if schema.get("x-kubernetes-list-type") == "map":
        for key in schema.get("x-kubernetes-list-map-keys", [None]):
            if key not in schema["items"].get("required", ()):
                yield f"{path}: list key {key} is not required"


def _lint_object(schema: Schema, path: str) -> Iterator[str]:
    forms = [form for form in ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields") if form in schema]
    if len(forms) != 1:
        yield f"{path}: an object with {' and '.join(forms) or 'no fields'}"
    if "additionalProperties" in schema and "maxProperties" not in schema:
        yield f"{path}: a map without maxProperties"
    if isinstance(schema.get("additionalProperties"), bool):
        yield f"{path}: additionalProperties is a boolean"
    for name in schema.get("required", ()):
        if name not in schema.get("properties", {}):
            yield f"{path}: required {name} is not a field"


def _lint_rules(schema: Schema, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if unknown := sorted(set(rule) - _RULE):
            yield f"{path}: rule with {', '.join(unknown)}"
        if not rule.get("message") or len(rule["message"]) > 2048 or "\n" in rule["message"]:
            yield f"{path}: a rule needs one line of message"
        if (target := rule.get("fieldPath")) is not None and not _has(schema, target):
            yield f"{path}: a rule's fieldPath {target} is not a field"


def _has(schema: Schema, target: str) -> bool:
    for name in target.lstrip(".").split("."):
        schema = schema.get("properties", {}).get(name, {})
    return bool(schema)
