"""`python -m e2e.toolchain`: install the tools, or say where each one is.

`make` targets call it before anything else, so that the minutes of a cold build are seen under their own name.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from e2e.toolchain import TOOLS, ToolchainError, ensure, locate
from e2e.toolchain.catalogue import CLUSTER_TOOLS
from e2e.toolchain.install import read_version

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.command("ensure")
def ensure_command(
    names: Annotated[list[str] | None, typer.Argument(help="tools; without any: all that the local cluster needs")] = None,
) -> None:
    """Find or install tools and print `name<TAB>path` lines."""
    wanted = names or list(CLUSTER_TOOLS)
    unknown = [name for name in wanted if name not in TOOLS]
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(TOOLS)}")
    try:
        found = ensure(wanted)
    except ToolchainError as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(1) from None
    for name, path in found.items():
        sys.stdout.write(f"{name}\t{path}\n")


@app.command()
def status() -> None:
    """Say where each tool is, or that it is missing; installs nothing."""
    table = Table("tool", "version", "path", box=None)
    for tool in TOOLS.values():
        path = locate(tool)
        version = read_version(tool, path) if path else None
        table.add_row(tool.name, ".".join(map(str, version)) if version else "", str(path) if path else "[yellow]missing[/]")
    Console().print(table)


if __name__ == "__main__":
    app()
