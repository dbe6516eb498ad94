"""`mtpilot snapshot`: save what the operator looks at, for `mtpilot plan` and for bug reports."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from . import exits
from .access import NamespaceOption, chosen_namespace, read_snapshot


def snapshot(
    name: Annotated[str, typer.Argument(help="Name of the InferenceService.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; - for stdout.")],
    namespace: NamespaceOption = None,
    prometheus_url: Annotated[str | None, typer.Option(envvar="MTPILOT_PROMETHEUS_URL", help="Read metrics there; default: none.")] = None,
    scrape_interval: Annotated[float, typer.Option(min=0.1, help="Its scrape interval, in seconds.")] = 15.0,
) -> None:
    """Save everything that a decision about one service depends on. Contains no Secret."""
    from mtpilot.adapters.snapshot_file import dump_snapshot

    if prometheus_url is not None:
        exits.need_http("--prometheus-url", prometheus_url)
    taken = asyncio.run(read_snapshot(name, chosen_namespace(namespace), prometheus_url=prometheus_url, scrape_interval=scrape_interval))
    text = dump_snapshot(taken)
    if str(output) == "-":
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        exits.leave(exits.in_words(error), exits.USAGE)
    metrics = "with metrics" if taken.metrics is not None else "without metrics (no --prometheus-url), so that its plan says NoSeries"
    typer.echo(f"{output}: {len(taken.slots)} slots, {len(taken.pods)} pods, {len(taken.profiles)} profiles, {metrics}")
