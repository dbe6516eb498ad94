"""`mtpilot crds`: write the CRDs and the API reference, or check that the files in the repository are what the models say.

Both are committed, so that a review sees an API change as users will; the check keeps them from being edited by hand.
"""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from mtpilot.api import crds as definitions
from mtpilot.api.reference import reference as reference_text


def crds(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the CRD files.")] = Path("crds"),
    reference: Annotated[Path | None, typer.Option("--reference", help="Also the API reference, to this file.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 and show the difference where a file is not up to date.")
    ] = False,
) -> None:
    """Generate the CustomResourceDefinitions, and the API reference, from the API models."""
    wanted = {output / name: text for name, text in definitions.documents().items()}
    if reference is not None:
        wanted[reference] = reference_text()
    if check:
        raise typer.Exit(code=1 if _report_drift(wanted, output) else 0)
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        typer.echo(path)


def _report_drift(wanted: dict[Path, str], output: Path) -> bool:
    """Show each file that differs from the models, and each CRD that no model gives any more."""
    drift = False
    for path, text in wanted.items():
        present = path.read_text(encoding="utf-8") if path.exists() else ""
        if present != text:
            drift = True
            lines = difflib.unified_diff(present.splitlines(True), text.splitlines(True), f"{path} (file)", f"{path} (models)")
            typer.echo("".join(lines), nl=False)
    for path in sorted(set(output.glob("*.yaml")) - set(wanted)):
        drift = True
        typer.echo(f"{path}: no model gives this file")
    if drift:
        typer.echo("out of date: run `mtpilot crds --reference docs/reference/api.md`", err=True)
    return drift
