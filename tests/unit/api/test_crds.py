"""The CRD documents beside the schema: names, columns, subresources."""

import re
from typing import Any

import pytest

from mtpilot.api.crds import HARDWARE_CLASS, INFERENCE_SERVICE, KINDS, THROUGHPUT_PROFILE, Kind, crd


def version(kind: Kind) -> dict[str, Any]:
    found: dict[str, Any] = crd(kind)["spec"]["versions"][0]
    return found


def test_names_are_those_of_the_design():
    names = {kind.kind: crd(kind)["spec"]["names"] for kind in KINDS}
    assert {kind: (n["plural"], n["shortNames"], n["categories"]) for kind, n in names.items()} == {
        "InferenceService": ("inferenceservices", ["mtpis"], ["mtpilot"]),
        "HardwareClass": ("hardwareclasses", ["hwclass"], ["mtpilot"]),
        "ThroughputProfile": ("throughputprofiles", ["tprof"], ["mtpilot"]),
    }
    assert [crd(kind)["spec"]["scope"] for kind in KINDS] == ["Namespaced", "Cluster", "Namespaced"]


def test_only_the_service_scales():
    assert version(INFERENCE_SERVICE)["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert version(HARDWARE_CLASS)["subresources"] == version(THROUGHPUT_PROFILE)["subresources"] == {"status": {}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_column_and_selectable_field_is_a_field_of_the_schema(kind):
    paths = [c["jsonPath"] for c in version(kind)["additionalPrinterColumns"]] + [
        field["jsonPath"] for field in version(kind).get("selectableFields", ())
    ]
    for path in set(paths) - {".metadata.creationTimestamp"}:
        schema = version(kind)["schema"]["openAPIV3Schema"]
        for name, kind_of_item in re.findall(r"\.(\w+)(?:\[\?\(@\.type=='(\w+)'\)\])?", path):
            schema = schema["properties"][name]
            if kind_of_item:
                schema = schema["items"]
                assert kind_of_item in schema["properties"]["type"]["enum"]
        assert schema["type"] in {"string", "integer"}


def test_columns_of_get():
    shown = {k.kind: [c.name for c in k.columns if not c.priority] for k in KINDS}
    assert shown == {
        "InferenceService": ["Mix", "Recommended", "Ready", "Load", "Reason", "Age"],
        "HardwareClass": ["Nodes", "GPUs", "Free", "Age"],
        "ThroughputProfile": ["Model", "Class", "Valid", "Verdict", "Crossover", "Age"],
    }
