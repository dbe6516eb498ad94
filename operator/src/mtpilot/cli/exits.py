"""Exit statuses, the same for every subcommand."""

from typing import NoReturn

import typer

FAILED = 1
USAGE = 2
NOT_FOUND = 3
EPILOG = "Exit status: 0 done, 1 failed or out of date, 2 wrong usage or unreadable file, 3 no such object."
PLOT_NEEDS = "a plot needs matplotlib: pip install 'mtpilot[analysis]'"


def leave(message: str, code: int) -> NoReturn:
    """Say why on stderr and exit."""
    typer.echo(f"mtpilot: {message}", err=True)
    raise typer.Exit(code)
