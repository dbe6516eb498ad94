"""`mtpilot crds`: write the CRDs, or check that the files in the repository are what the models say."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from mtpilot.api import crds as definitions


def crds(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the CRD files.")] = Path("crds"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 and show the difference where a file is not up to date.")
    ] = False,
) -> None:
    """Generate the CustomResourceDefinitions from the API models."""
    wanted = {output / name: text for name, text in definitions.documents().items()}
    if check:
        raise typer.Exit(code=1 if _report_drift(wanted) else 0)
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        typer.echo(path)


def _report_drift(wanted: dict[Path, str]) -> bool:
    drift = False
    for path, text in wanted.items():
        present = path.read_text(encoding="utf-8") if path.exists() else ""
        if present != text:
            drift = True
            lines = difflib.unified_diff(present.splitlines(True), text.splitlines(True), f"{path} (file)", f"{path} (models)")
            typer.echo("".join(lines), nl=False)
    if drift:
        typer.echo("out of date: run `mtpilot crds`", err=True)
    return drift
