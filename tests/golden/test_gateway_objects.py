"""The gateway of every sample, as files to read in a review: HAProxy's configuration and the objects around it.

A change here rolls every user's gateway at the next upgrade of the operator: it must be meant.
Update with `pytest tests/golden --snapshot-update`.
"""

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mtpilot.render.gateway import render_gateway
from mtpilot.render.haproxy import CONFIG_FILE, haproxy_config
from tests.unit.render.samples import SAMPLES, Sample


class TextFile(SingleFileSnapshotExtension):
    """One plain file per snapshot."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


def test_configuration(golden: SnapshotAssertion) -> None:
    assert haproxy_config(SAMPLES[0].service.name, SAMPLES[0].service.spec) == golden(name="haproxy.cfg")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_objects(sample: Sample, golden: SnapshotAssertion) -> None:
    objects = list(render_gateway(sample.service, sample.hardware))
    assert objects[1]["data"].pop(CONFIG_FILE) == haproxy_config(sample.service.name, sample.service.spec, sample.hardware.spec)
    assert yaml.safe_dump_all(objects, sort_keys=False, width=140) == golden(name=sample.name)
