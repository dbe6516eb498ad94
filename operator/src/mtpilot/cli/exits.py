"""Exit statuses, the same for every subcommand."""

from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

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


def in_words(error: OSError | ValueError, file: Path | None = None) -> str:
    """An error about a file as `FILE: what is wrong`, without the number of the error. file: where the error does not name it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return f"{file}: {error}" if file is not None else str(error)


def need_http(option: str, url: str) -> None:
    """Leave where a URL has no scheme: a client would refuse it at each query, long after the start."""
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        leave(f"{option} must begin with http:// or https:// and name a host, not {url!r}", USAGE)
