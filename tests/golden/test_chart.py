"""The chart of every `ci/*-values.yaml`, as files to read in a review.

Update with `pytest tests/golden --snapshot-update`. CRDs are left out: `crds/` has them.
"""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.chart_rendering import SCENARIOS, template


class YamlFile(SingleFileSnapshotExtension):
    """One plain file per scenario."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


@pytest.mark.parametrize("values", SCENARIOS, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_rendered(values: Path, snapshot: SnapshotAssertion) -> None:
    text = template("--values", str(values), "--set", "crds.enabled=false")
    assert text == snapshot(extension_class=YamlFile)
