"""Model -> structural schema: the linter over all CRDs, the conversion of each form, and what it refuses."""

import copy
from typing import Any

import pytest
import yaml
from pydantic import Field

from mtpilot.api.crds import KINDS, Kind, crd, documents
from mtpilot.api.schema import SchemaError, structural
from mtpilot.api.types import STORED_DEFAULT, ApiModel, Duration, Timestamp
from tests.structural import lint


def root_schema(kind: Kind) -> dict[str, Any]:
    schema: dict[str, Any] = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def findings(schema: dict[str, Any]) -> list[str]:
    return [line for part in ("spec", "status") for line in lint(schema["properties"][part], f"root.{part}")]


def stored_defaults(schema: dict[str, Any], path: str = "") -> list[str]:
    children = list(schema.get("properties", {}).items()) + ([("[]", schema["items"])] if "items" in schema else [])
    return ([path] if "default" in schema else []) + [
        found for name, child in children for found in stored_defaults(child, f"{path}.{name}")
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_schema_is_structural_bounded_and_described(kind):
    assert findings(root_schema(kind)) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"anyOf": []}, "root.spec.model: keyword anyOf on a object"),
        ({"properties": {"x": {"type": "string", "description": "x"}}}, "root.spec.model.x: a string without maxLength"),
        ({"properties": {"x": {"type": "number", "description": "x"}}}, "root.spec.model.x: type 'number'"),
        (
            {"properties": {"x": {"type": "integer", "description": "x", "minimum": 0}}},
            "root.spec.model.x: an integer of a spec without maximum",
        ),
        (
            {"properties": {"x": {"type": "array", "description": "x", "items": {"type": "boolean"}, "x-kubernetes-list-type": "atomic"}}},
            "root.spec.model.x: a list without maxItems",
        ),
        ({"properties": {"x": {"type": "object", "description": "x"}}}, "root.spec.model.x: an object with no fields"),
        ({"required": ["nothing"]}, "root.spec.model: required nothing is not a field"),
        ({"description": ""}, "root.spec.model: no description"),
        (
            {"x-kubernetes-validations": [{"rule": "true", "message": "m", "fieldPath": ".nothing"}]},
            "root.spec.model: a rule's fieldPath .nothing is not a field",
        ),
    ],
)
def test_linter_sees_a_fault(change, finding):
    schema = copy.deepcopy(root_schema(KINDS[0]))
    schema["properties"]["spec"]["properties"]["model"] |= change
    assert finding in findings(schema)


def test_only_replicas_is_stored_as_a_default():
    assert [stored_defaults(root_schema(kind)) for kind in KINDS] == [[".spec.replicas"], [], []]


def test_documents_are_small_yaml_of_the_crds():
    texts = documents()
    assert max(len(text.encode()) for text in texts.values()) < 200_000
    assert [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts.values()] == [crd(kind) for kind in KINDS]


def test_a_model_becomes_a_schema():
    class Item(ApiModel):
        """An item."""

        name: str = Field(max_length=9)

    class Whole(ApiModel):
        """Something
        on two lines."""

        count: int = Field(default=3, ge=1, le=9, json_schema_extra={**STORED_DEFAULT})
        wait: Duration | None = Field(default=None, description="How long")
        at: Timestamp
        flag: bool = Field(default=True, description="A flag")
        items: tuple[Item, ...] = Field(
            default=(), max_length=2, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        )
        words: tuple[str, ...] = Field(default=(), max_length=2)
        labels: dict[str, str] = Field(default={}, max_length=4)
        overlay: dict[str, Any] | None = None

    schema = structural(Whole)
    assert schema["description"] == "Something on two lines."
    assert schema["required"] == ["at"]
    fields = schema["properties"]
    assert fields["count"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}
    assert fields["wait"]["description"] == "How long"
    assert "default" not in fields["wait"]
    assert fields["at"] == {"type": "string", "format": "date-time", "maxLength": 40}
    assert fields["flag"] == {"type": "boolean", "description": "A flag. Default: true"}
    assert fields["items"]["items"]["properties"]["name"] == {"type": "string", "maxLength": 9}
    assert fields["items"]["x-kubernetes-list-map-keys"] == ["name"]
    assert fields["words"]["x-kubernetes-list-type"] == "atomic"
    assert fields["labels"] == {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 4}
    assert fields["overlay"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Inner(ApiModel):
    name: str


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (float, "type 'number'"),
        (int | str, "a union of 2 types"),
        (tuple[Inner, ...], "a list of objects needs x-kubernetes-list-type"),
        (tuple[int, str], "cannot say prefixItems"),
        (set[str], "cannot say uniqueItems"),
        (Any, "type None"),
    ],
)
def test_what_a_crd_cannot_say_is_an_error(annotation, words):
    model = type("Odd", (ApiModel,), {"__annotations__": {"field": annotation}, "__module__": __name__})
    with pytest.raises(SchemaError, match=words):
        structural(model)
