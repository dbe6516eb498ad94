"""Work through the matrix on a few processes, the dearest tasks first, with the time that is left."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from e2e.bench_policy.cells import CLOSED, WIDE, Task
from e2e.bench_policy.work import Cell, cell_minutes, replay

_SPEED_WINDOW_SECONDS = 120.0


def run(tasks: Sequence[Task], console: Console, processes: int = 2) -> list[Cell]:
    """The cells of all tasks, in the order of the tasks."""
    weights = [cell_minutes(task) * (1 + task.replicas) for task in tasks]
    order = sorted(range(len(tasks)), key=lambda i: (-weights[i], i))
    found: dict[int, list[Cell]] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=console, speed_estimate_period=_SPEED_WINDOW_SECONDS) as progress,
        multiprocessing.get_context("spawn").Pool(processes) as pool,
    ):
        bar = progress.add_task("replaying", total=sum(weights))
        for i, cells in pool.imap_unordered(_numbered, [(i, tasks[i]) for i in order]):
            found[i] = cells
            progress.update(bar, advance=weights[i], description=_told(tasks[i]))
            if not console.is_terminal and len(found) % 20 == 0:
                console.print(f"{len(found)} of {len(tasks)} tasks, {progress.tasks[bar].percentage:.0f} %")
    return [cell for i in range(len(tasks)) for cell in found[i]]


def _numbered(numbered: tuple[int, Task]) -> tuple[int, list[Cell]]:
    return numbered[0], replay(numbered[1])


def _told(task: Task) -> str:
    load = task.load if task.part == CLOSED else f"{task.load} at {task.share:g}"
    flip = f", flip {task.flip_minutes} min" if task.part == WIDE else ""
    return f"{task.part}: {load}, {task.replicas} replicas{flip}"
