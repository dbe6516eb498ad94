"""The samples without an API server: every rule has its pair, every field is set somewhere, every accepted one parses."""

import pytest

from mtpilot.api.crds import KINDS, crd
from mtpilot.api.reference import rows
from mtpilot.api.rules import every_rule
from tests.sample_files import Sample, full_documents, samples

KIND = {kind.kind: kind for kind in KINDS}


def present(value, path: str) -> set[str]:
    """Paths of the fields in a document, written as `mtpilot.api.reference.rows` writes them."""
    if isinstance(value, dict):
        return {path} | {found for name, child in value.items() for found in present(child, f"{path}.{name}")}
    if isinstance(value, list):
        return {path} | {found for child in value for found in present(child, f"{path}[]")}
    return {path}


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_every_rule_has_a_sample(verdict):
    assert {rule.name for rule in every_rule()} <= {sample.name for sample in samples(verdict)}


def test_every_sample_is_about_a_rule_or_a_whole_object():
    names = {rule.name for rule in every_rule()} | {"full", "minimal"}
    assert {sample.name for sample in (*samples("accept"), *samples("reject"))} <= names


def test_every_rejected_sample_says_what_it_expects():
    assert [str(sample) for sample in samples("reject") if not sample.expect] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_the_full_sample_sets_every_field(kind):
    root = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = {row.path for part in ("spec", "status") for row in rows(root["properties"][part], part)}
    found = {
        path for document in full_documents(kind.kind) for part in ("spec", "status") for path in present(document.get(part, {}), part)
    }
    assert fields - found == set()


@pytest.mark.parametrize("sample", samples("accept"), ids=str)
def test_an_accepted_sample_parses_and_loses_nothing(sample: Sample):
    kind = KIND[sample.kind]
    for part, model in (("spec", kind.spec), ("status", kind.status)):
        if part in sample.document:
            parsed = model.model_validate(sample.document[part])
            assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == sample.document[part]
