"""Every CEL rule against the real API server: what breaks one is refused for it alone, what comes near is taken."""

from pathlib import Path

import pytest
import yaml

from mtpilot.api.rules import every_rule
from tests.sample_files import Sample, samples

from .conftest import REPOSITORY, Server
from .validation import try_create

pytestmark = pytest.mark.integration

RULES = {rule.name: rule for rule in every_rule()}


@pytest.mark.parametrize("sample", samples("accept"), ids=str)
async def test_accepted(server: Server, sample: Sample):
    assert await try_create(server.client, sample.document, server.namespace) is None


@pytest.mark.parametrize("sample", samples("reject"), ids=str)
async def test_refused_for_its_rule_alone(server: Server, sample: Sample):
    refusal = await try_create(server.client, sample.document, server.namespace)
    assert refusal is not None
    assert [sample.expect in cause.message for cause in refusal.causes] == [True], refusal.message
    rule, cause = RULES[sample.name], refusal.causes[0]
    assert cause.reason == rule.reason.value
    if rule.message_expression is None:
        assert rule.message in cause.message
    if rule.field_path is not None:
        assert cause.field.endswith(rule.field_path)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "docs" / "examples").glob("*.yaml")), ids=lambda path: path.stem)
async def test_an_example_of_the_documentation_is_accepted(server: Server, path: Path):
    for document in yaml.safe_load_all(path.read_text()):
        document["metadata"].pop("namespace", None)
        assert await try_create(server.client, document, server.namespace) is None
