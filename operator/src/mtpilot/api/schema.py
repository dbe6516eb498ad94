"""Pydantic model -> structural OpenAPI v3 schema, as a CustomResourceDefinition takes it.

Pydantic's JSON Schema has references, nulls and keywords that the API server refuses or silently drops. This walks it and
rewrites the few forms that our models use; anything else is an error here, not a surprise at apply time.
"""

from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any

from .cel import Rule
from .field_rules import FIELD_RULES
from .rules import RULES
from .types import ApiModel

Schema = dict[str, Any]

_COPIED = (
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
_LIST_KEYWORDS = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")
_READ = frozenset(
    {*_COPIED, *_LIST_KEYWORDS, "type", "description", "default", "title", "properties", "required", "items", "additionalProperties"}
)
_STORED = "x-mtpilot-stored-default"


class SchemaError(ValueError):
    """A model uses something that a structural schema cannot say; the text names the place."""


def structural(model: type[ApiModel]) -> Schema:
    """The structural schema of a model, references inlined and CEL rules in place.

    Raises:
        SchemaError: a type or keyword that a CRD cannot carry.
    """
    document = model.model_json_schema(by_alias=True)
    definitions = document.get("$defs", {})
    return _Converter(definitions).convert(document, model.__name__, model)


class _Converter:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._models = {model.__name__: model for model in _descendants(ApiModel)}

    def convert(self, node: Schema, where: str, model: type[ApiModel] | None = None) -> Schema:
        node, model = self._resolve(node, model)
        unknown = sorted(set(node) - _READ - {"$defs", _STORED})
        if unknown:
            raise SchemaError(f"{where}: cannot say {', '.join(unknown)}")
        out: Schema = {}
        if description := _description(node):
            out["description"] = description
        match node.get("type"):
            case "object":
                out |= self._object(node, where, model)
            case "array":
                out |= self._array(node, where)
            case "string" | "integer" | "boolean" as kind:
                out["type"] = kind
            case other:
                raise SchemaError(f"{where}: type {other!r}")
        out |= {keyword: node[keyword] for keyword in _COPIED if keyword in node}
        if node.get(_STORED):
            out["default"] = node["default"]
        return out

    def _resolve(self, node: Schema, model: type[ApiModel] | None) -> tuple[Schema, type[ApiModel] | None]:
        """Inline a reference and drop the null of an optional; what stands beside them wins."""
        while "$ref" in node or "anyOf" in node:
            beside = {k: v for k, v in node.items() if k not in ("$ref", "anyOf")}
            if "$ref" in node:
                name = node["$ref"].removeprefix("#/$defs/")
                model = self._models.get(name)
                node = self._definitions[name] | beside
            else:
                options = [option for option in node["anyOf"] if option.get("type") != "null"]
                if len(options) != 1:
                    raise SchemaError(f"a union of {len(options)} types")
                node = options[0] | beside
        return node, model

    def _object(self, node: Schema, where: str, model: type[ApiModel] | None) -> Schema:
        out: Schema = {"type": "object"}
        if "properties" in node:
            out["properties"] = {alias: self._field(child, f"{where}.{alias}", model) for alias, child in node["properties"].items()}
            if required := node.get("required"):
                out["required"] = sorted(required)
        elif isinstance(values := node.get("additionalProperties"), dict) and values:
            out["additionalProperties"] = self.convert(values, f"{where}.*")
        else:
            out["x-kubernetes-preserve-unknown-fields"] = True
        _attach(out, RULES.get(model, ()) if model else ())
        return out

    def _field(self, node: Schema, where: str, model: type[ApiModel] | None) -> Schema:
        schema = self.convert(node, where)
        alias = where.rsplit(".", 1)[-1]
        for name, attached in (FIELD_RULES.get(model, {}) if model else {}).items():
            if model and model.model_fields[name].alias == alias:
                held = schema["items"] if schema["type"] == "array" else schema
                if any(rule.tells_form for rule in attached):
                    held.pop("pattern", None)
                    held.pop("minLength", None)
                _attach(held, attached)
        return schema

    def _array(self, node: Schema, where: str) -> Schema:
        out: Schema = {"type": "array", "items": self.convert(node["items"], f"{where}[]")}
        for keyword in _LIST_KEYWORDS:
            if keyword in node:
                out[keyword] = node[keyword]
        if "x-kubernetes-list-type" not in out:
            if out["items"]["type"] == "object":
                raise SchemaError(f"{where}: a list of objects needs x-kubernetes-list-type")
            out["x-kubernetes-list-type"] = "atomic"
        return out


def _attach(schema: Schema, attached: Sequence[Rule]) -> None:
    if attached:
        schema["x-kubernetes-validations"] = [rule.to_schema() for rule in attached]


def _description(node: Schema) -> str:
    """The field's words, and the default where the API server does not store it."""
    text = " ".join(cleandoc(node.get("description", "")).split())
    default = node.get("default")
    if node.get(_STORED) or default in (None, "", [], {}) or isinstance(default, dict) or "efault:" in text:
        return text
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return f"{text}. Default: {shown}" if text else f"Default: {shown}"


def _descendants(model: type[ApiModel]) -> list[type[ApiModel]]:
    return [c for child in model.__subclasses__() for c in (child, *_descendants(child))]
