"""Slots of every sample in both modes, and the objects beside them, as files to read in a review.

A change here restarts every replica of every user at the next upgrade of the operator: it must be meant.
Update with `pytest tests/golden --snapshot-update`.
"""

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mtpilot.api.inference_service import Mode
from mtpilot.render.disruption import render_disruption_budget
from mtpilot.render.secret import render_admin_secret
from mtpilot.render.slot import render_slot
from tests.unit.render.samples import CHAT, MODES, SAMPLES, Sample


class YamlFile(SingleFileSnapshotExtension):
    """One YAML file per test."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(YamlFile)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_slot(sample: Sample, mode: Mode, golden: SnapshotAssertion) -> None:
    rendered = yaml.safe_dump(render_slot(sample.service, sample.hardware, 0, mode), sort_keys=False, width=140)
    assert rendered == golden


def test_children_beside_the_gateway(golden: SnapshotAssertion) -> None:
    service = CHAT.service
    documents = [render_admin_secret(service).manifest, render_disruption_budget(service)]
    assert yaml.safe_dump_all(documents, sort_keys=False, width=140) == golden
