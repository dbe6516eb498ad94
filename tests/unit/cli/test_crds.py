"""`mtpilot crds`: the repository's files are up to date, and drift is seen, shown and mended."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mtpilot.cli.crds import crds

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(crds)
    return app


def run(app: typer.Typer, *arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_committed_files_are_what_the_models_say(app):
    result = run(app, "--check", "-o", REPOSITORY / "crds", "--reference", REPOSITORY / "docs/reference/api.md")
    assert (result.exit_code, result.output) == (0, "")


def test_drift_is_shown_and_mended(app, tmp_path):
    folder, page = tmp_path / "crds", tmp_path / "docs" / "api.md"
    arguments = ("-o", folder, "--reference", page)
    assert run(app, *arguments, "--check").exit_code == 1
    assert run(app, *arguments).exit_code == 0
    assert run(app, *arguments, "--check").exit_code == 0
    service = folder / "inferenceservices.mtpilot.dev.yaml"
    service.write_text(service.read_text().replace("maximum: 4096", "maximum: 5000", 1))
    drift = run(app, *arguments, "--check")
    assert drift.exit_code == 1
    assert "maximum: 5000\n" in drift.output
    assert "maximum: 4096\n" in drift.output
    assert "run `mtpilot crds" in drift.output


def test_a_crd_without_a_model_is_drift(app, tmp_path):
    run(app, "-o", tmp_path)
    (tmp_path / "old.yaml").write_text("{}")
    result = run(app, "-o", tmp_path, "--check")
    assert result.exit_code == 1
    assert "old.yaml: no model gives this file" in result.output
