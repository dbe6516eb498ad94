"""`python -m e2e.demo`: run the demo, write report and summary, exit 0 only if everything that it promises was kept."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.demo import parameters as parameter_sets
from e2e.demo.plots import NAMES
from e2e.demo.report import render
from e2e.demo.run import run_demo
from e2e.demo.shaping import read_trace
from e2e.demo.summary import READING, failed_checks, summarise, warnings
from e2e.demo.view import view_for

_LOG_WIDTH = 140


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description="Flip a real InferenceService under load on a local cluster.")
    parser.add_argument("--baselines", action=argparse.BooleanOptionalAction, default=True, help="also run always mtp and always batch")
    parser.add_argument("--quick", action="store_true", help="a shorter schedule of the same shape")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output, progress on standard error")
    parser.add_argument("--plain", action="store_true", help="progress lines instead of the live view")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of report.html and summary.json (default: out/demo)")
    return parser.parse_args(argv)


def _table(summary: Mapping[str, Any]) -> Table:
    table = Table(title="The same load under each policy", caption=READING, caption_justify="left")
    for column in (
        "policy",
        "output tokens/s",
        "mean latency, s",
        "quiet",
        "busy",
        "p99 latency, s",
        "requests",
        "failed",
        "flips up/down",
        "step time/curve",
    ):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name, figures in summary["policies"].items():
        requests, flips = figures["requests"], figures["flips"]
        table.add_row(
            NAMES[name],
            f"{figures['output_tokens_per_second'] or 0:,.0f}",
            f"{figures['mean_latency_seconds'] or 0:.2f}",
            f"{figures['quiet_mean_latency_seconds'] or 0:.2f}",
            f"{figures['busy_mean_latency_seconds'] or 0:.2f}",
            f"{figures['p99_latency_seconds'] or 0:.2f}",
            str(requests["sent"]),
            str(requests["failed"] + requests["incomplete"] + figures["marker_leaks"]),
            f"{flips['mtp_to_batch']}/{flips['batch_to_mtp']}",
            f"{figures['step_time_ratio']:.3f}" if figures["step_time_ratio"] else "-",
        )
    return table


def _scales(console: Console, parameters: parameter_sets.Parameters) -> None:
    console.print(
        f"Scaled for a demo: engine steps ×{parameters.time_scale:g}, load of an engine {parameters.load_seconds:g} s, stabilization "
        f"{parameters.stabilization_up} up / {parameters.stabilization_down} down, minDwell {parameters.min_dwell}, drainTimeout "
        f"{parameters.drain_timeout}, readyTimeout {parameters.ready_timeout}; mtp capacity {parameters.mtp_tokens_per_second:,.0f}, batch "
        f"{parameters.batch_tokens_per_second:,.0f} output tokens/s.",
        highlight=False,
        soft_wrap=True,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """0: all checks passed; 1: a check failed, or the demo could not be run."""
    arguments = _arguments(argv)
    baselines = arguments.baselines
    chosen = parameter_sets.quick(baselines=baselines) if arguments.quick else parameter_sets.Parameters(baselines=baselines)
    console = Console(stderr=arguments.json)
    if not console.is_terminal:
        console = Console(stderr=arguments.json, width=_LOG_WIDTH)
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    trace = read_trace()
    _scales(console, chosen)
    with tempfile.TemporaryDirectory(prefix="mtpd-") as state:
        try:
            with view_for(console, chosen, plain=arguments.plain) as view:
                outcome = asyncio.run(run_demo(chosen, trace, view, state=Path(state) / "c", out=out))
        except (TimeoutError, RuntimeError, OSError) as error:
            console.print(f"The demo could not be run: {error}", style="red", markup=False)
            return 1
    summary = summarise(outcome)
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    outcome.timeline.write(out / "timeline.json")
    (out / "report.html").write_text(render(outcome, summary, parameter_sets.schedule(chosen, trace), trace))
    if arguments.json:
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    console.print(_table(summary))
    console.print(f"Report: {out / 'report.html'}   Summary: {out / 'summary.json'}", soft_wrap=True)
    for warning in warnings(summary):
        console.print(f"Warning: {warning}", style="yellow", markup=False)
    failures = failed_checks(summary, baselines=baselines)
    for failure in failures:
        console.print(f"Failed: {failure}", style="red", markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
