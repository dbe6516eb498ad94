"""Samples of schema bounds, made from the schema and a full document: one value changed at a time.

A case just outside a bound names the field and the words of the refusal; its twin just inside must not draw these words.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_NOT_MATCHING = ("!", "!!", "-", "!" * 64)
_WRONG_TYPE = {"string": 7, "integer": "many", "boolean": "maybe", "array": "one", "object": "flat"}
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A changed `spec` or `status`.

    Attributes:
        part: spec or status; `value` is the whole changed part.
        field: the path that the API server must name (or must not).
        words: what it says there.
        refused: whether it must.
    """

    part: str
    value: Any
    field: str
    what: str
    words: str
    refused: bool = True

    def __str__(self) -> str:
        return f"{self.field}-{self.what}"


def cases(schema: Schema, part: str, document: Any) -> Iterator[Case]:
    """Every case for the fields that a document's part sets."""
    for path, node, value in _walk(schema, (), document):
        for what, changed, words, refused in _changes(node, value):
            at = (*path, changed[0]) if isinstance(changed, tuple) else path
            new = _ABSENT if isinstance(changed, tuple) else changed
            yield Case(part=part, value=_replaced(document, at, new), field=_text(part, at), what=what, words=words, refused=refused)


def _walk(node: Schema, path: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Schema, Any]]:
    yield path, node, value
    if isinstance(value, dict):
        for name, child in value.items():
            below = node.get("properties", {}).get(name) or node.get("additionalProperties")
            if below:
                yield from _walk(below, (*path, name), child)
    elif isinstance(value, list) and value:
        yield from _walk(node["items"], (*path, 0), value[0])


def _changes(node: Schema, value: Any) -> Iterator[tuple[str, Any, str, bool]]:
    """(what, changed value or a 1-tuple of the field to drop, words, refused)."""
    yield "type", _WRONG_TYPE[node["type"]], "must be of type", True
    match node["type"]:
        case "integer":
            yield from _number(node)
        case "string":
            yield from _string(node)
        case "array":
            yield from _array(node, value)
        case "object":
            for name in node.get("required", ()):
                yield f"without-{name}", (name,), "Required value", True
            if most := node.get("maxProperties"):
                yield "entries+1", {f"k{i}": "v" for i in range(most + 1)}, f"must have at most {most} items", True
                yield "entries", {f"k{i}": "v" for i in range(most)}, f"must have at most {most} items", False


def _number(node: Schema) -> Iterator[tuple[str, Any, str, bool]]:
    if (least := node.get("minimum")) is not None:
        words = f"should be greater than or equal to {least}"
        yield "min-1", least - 1, words, True
        yield "min", least, words, False
    if (most := node.get("maximum")) is not None:
        words = f"should be less than or equal to {most}"
        yield "max+1", most + 1, words, True
        yield "max", most, words, False


def _string(node: Schema) -> Iterator[tuple[str, Any, str, bool]]:
    if "enum" in node:
        yield "enum", "Nothing", "Unsupported value", True
        for item in node["enum"]:
            yield f"enum-{item}", item, "Unsupported value", False
        return
    most, least = node["maxLength"], node.get("minLength", 0)
    yield "length+1", "1" * (most + 1), "Too long", True
    yield "length", "1" * most, "Too long", False
    if least:
        yield "length-1", "1" * (least - 1), f"should be at least {least} chars long", True
        yield "shortest", "1" * least, f"should be at least {least} chars long", False
    if pattern := node.get("pattern"):
        odd = next(text for text in _NOT_MATCHING if least <= len(text) <= most and not re.search(pattern, text))
        yield "pattern", odd, "should match", True
    if node.get("format") == "date-time":
        yield "format", "yesterday", "must be of type date-time", True


def _array(node: Schema, value: list[Any]) -> Iterator[tuple[str, Any, str, bool]]:
    most, least = node["maxItems"], node.get("minItems", 0)
    yield "items+1", [value[0]] * (most + 1), f"must have at most {most} items", True
    yield "items", [value[0]] * most, f"must have at most {most} items", False
    if least:
        yield "items-1", value[: least - 1], f"should have at least {least} items", True
        yield "fewest", value[:least], f"should have at least {least} items", False


def _replaced(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    node = changed
    for step in path[:-1]:
        node = node[step]
    if value is _ABSENT:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return changed


def _text(part: str, path: tuple[str | int, ...]) -> str:
    return part + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
