"""Progress of a benchmark: a live bar in a terminal, a line for each batch elsewhere. Both on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from mtpilot.bench.session import Progress as Step


@contextmanager
def shown(duration_seconds: float) -> "Iterator[Callable[[Step], None]]":
    """A function that is told of each step. duration_seconds: of an open loop."""
    if not sys.stderr.isatty():
        yield lambda step: typer.echo(_words(step, duration_seconds), err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("warming up", total=None, left="")

        def told(step: "Step") -> None:
            total, left = len(step.done) + len(step.rest), f"{_left(step, duration_seconds)} left{_last(step)}"
            progress.update(task, total=total, completed=len(step.done), description=_next(step), left=left)

        yield told


def _words(step: "Step", duration_seconds: float) -> str:
    total = len(step.done) + len(step.rest)
    return f"{len(step.done)} of {total} batches, {_left(step, duration_seconds)} left{_last(step)}; {_next(step)}"


def _next(step: "Step") -> str:
    if not step.rest:
        return "writing the package"
    batch = step.rest[0]
    return f"{batch.target.name}, {batch.context_bucket} tokens, {batch.sampling.value}, {batch.load}"


def _left(step: "Step", duration_seconds: float) -> str:
    from mtpilot.bench.forecast import seconds_left, spelled

    return spelled(seconds_left(step.rest, step.done, duration_seconds=duration_seconds))


def _last(step: "Step") -> str:
    if step.last is None:
        return ""
    figures = step.last.record.figures
    rate = figures.tokens_per_second or figures.wall_tokens_per_second or 0.0
    leaked = f", {figures.leaked} LEAKED" if figures.leaked else ""
    failed = f", {figures.failed} failed" if figures.failed else ""
    return f"; {step.done[-1].batch.load}: {rate:.0f} tok/s{failed}{leaked}"
