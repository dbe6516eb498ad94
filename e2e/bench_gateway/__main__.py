"""`python -m e2e.bench_gateway`: run the bench, write summary and report, exit 0 only if every goal was met."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from e2e.bench_gateway import parameters as parameter_sets
from e2e.bench_gateway.fleet import BenchError
from e2e.bench_gateway.plots import NAMES
from e2e.bench_gateway.report import render
from e2e.bench_gateway.run import STEPS, run_bench
from e2e.bench_gateway.summary import CASES, details, failed_goals, missing, summarise, warnings
from e2e.load.process import LoadGeneratorError
from e2e.toolchain.install import ToolchainError

_LOG_WIDTH = 150


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench_gateway", description="mtpilot's gateway beside HAProxy, sglang-router and smg."
    )
    parser.add_argument(
        "--quick", action="store_true", help="seconds of load instead of half a minute: whether it works, not what it measures"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output, all else on standard error")
    parser.add_argument(
        "--out", type=Path, default=Path("out/bench-gateway"), help="folder of report.html and summary.json (default: out/bench-gateway)"
    )
    return parser.parse_args(argv)


class BarView:
    """A bar with the step and the load's totals on a terminal; a line a step elsewhere."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._console = console
        self.progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task: TaskID = self.progress.add_task("", total=STEPS)
        self._step, self._begun = "", False

    def step(self, text: str) -> None:
        """A new part begins."""
        if self._begun:
            self.progress.advance(self._task)
        self._begun, self._step = True, text
        self.progress.update(self._task, description=text)
        if not self._console.is_terminal:
            self._console.print(text, highlight=False)

    def counters(self, counters: dict[str, Any]) -> None:
        """Totals of the load generator."""
        self.progress.update(self._task, description=f"{self._step}: {counters['completed']} of {counters['sent']} answered")


def _rows_table(rows: Mapping[str, Any]) -> Table:
    table = Table(title="One fleet, one load")
    for column in ("contender", "output\ntokens/s", "mean\nlatency, s", "p99\nlatency, s", "median\nTTFT, s", "errors in\ntwo flips"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    for column in ("added\np50, ms", "added\np99, ms", "tiny requests/s\nper core"):
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(
            NAMES[name].replace("\n", " "),
            f"{row['output_tokens_per_second'] or 0:,.0f}",
            *(f"{row[key] or 0:.3f}" for key in ("mean_latency_seconds", "p99_latency_seconds", "ttft_p50_seconds")),
            str(row["flip_errors"]),
            *(f"{row[key] or 0:.3f}" for key in ("added_p50_ms", "added_p99_ms")),
            f"{row['tiny_requests_per_second'] or 0:,.0f}",
        )
    return table


def _omlx_table(cases: Mapping[str, Any]) -> Table:
    table = Table(title="The oMLX table, output tokens/s")
    columns = ("one alone,\nmtp + batch replica", "four by the rule,\nmtp + batch replica", "four, plain batching,\none batch replica")
    for column in ("sampling", *columns, "four, mixed route,\none mtp replica", "rule / plain"):
        table.add_column(column, justify="left" if column == "sampling" else "right")
    for name, figures in cases.items():
        table.add_row(name, *(f"{figures[case]:.1f}" for case in CASES), f"{figures['four'] / figures['plain_four']:.3f}")
    return table


def _keep_logs(folder: Path, target: Path) -> Path:
    """Copy the logs of all processes out of the run's folder."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for log in folder.rglob("*.log"):
        shutil.copy(log, target / f"{log.parent.name}-{log.name}")
    return target


def main(argv: Sequence[str] | None = None) -> int:
    """0: all goals met; 1: a goal was missed, a figure is missing, or the bench could not be run."""
    arguments = _arguments(argv)
    console = Console(stderr=arguments.json)
    if not console.is_terminal:
        console = Console(stderr=arguments.json, width=_LOG_WIDTH)
    chosen = parameter_sets.quick(parameter_sets.Parameters()) if arguments.quick else parameter_sets.Parameters()
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    view = BarView(console)
    # NB: a socket's path has at most 107 bytes, so the run's folder is not under `out`.
    with tempfile.TemporaryDirectory(prefix="mtpg-") as folder:
        try:
            with view.progress:
                outcome = asyncio.run(run_bench(chosen, view, Path(folder)))
        except (BenchError, LoadGeneratorError, ToolchainError, TimeoutError, OSError) as error:
            kept = _keep_logs(Path(folder), out / "logs")
            console.print(f"The bench could not be run: {error or type(error).__name__}\nLogs: {kept}", style="red", markup=False)
            return 1
    summary, detail = summarise(outcome), details(outcome)
    failures = missing(summary) or failed_goals(summary, detail)
    noted = warnings(detail)
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (out / "details.json").write_text(json.dumps(detail | {"failed_goals": failures, "warnings": noted}, indent=2) + "\n")
    (out / "report.html").write_text(render(outcome, summary, detail, failures, noted))
    if arguments.json:
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    console.print(_rows_table(summary["rows"]))
    console.print(_omlx_table(summary["omlx"]))
    console.print(f"Report: {out / 'report.html'}   Summary: {out / 'summary.json'}", soft_wrap=True)
    for warning in noted:
        console.print(f"Warning: {warning}", style="yellow", markup=False)
    for failure in failures:
        console.print(f"Goal missed: {failure}", style="red", markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
