"""`python -m e2e.bench_policy`: replay the matrix, write report and summary, exit 0 only if everything that it must show holds."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.bench_policy.cells import CLOSED, PARTS, WIDE, tasks
from e2e.bench_policy.checks import failures
from e2e.bench_policy.drawings import costs_over_load, ratios
from e2e.bench_policy.plan_time import plan_p99_ms
from e2e.bench_policy.report import render
from e2e.bench_policy.run import run
from e2e.bench_policy.summary import details, summarise
from e2e.bench_policy.work import POLICIES
from mtpilot.drawing import png

_LOG_WIDTH = 140


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench_policy", description="Replay every policy on the whole matrix.")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given several times")
    parser.add_argument("--sample", type=int, metavar="N", help="only N cells of the wide matrix, always the same ones")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output, progress on standard error")
    parser.add_argument("--out", type=Path, default=Path("out/bench-policy"), help="folder of the files (default: out/bench-policy)")
    return parser.parse_args(argv)


def _table(summary: Mapping[str, Any], part: str) -> Table:
    of = "tokens, as a share of the bound" if part == CLOSED else "cost over the optimum"
    table = Table(title=f"{part}: {of}", title_justify="left")
    table.add_column("policy")
    names = [*summary["best_static"][part], *(["flips_mean"] if part == WIDE else [])]
    for name in names:
        table.add_column(name.replace("_mean", ""), justify="right")
    rows = {policy: summary[part][policy] for policy in POLICIES} | {"better static, known afterwards": summary["best_static"][part]}
    for policy, found in rows.items():
        table.add_row(
            policy, *(f"{found[name]:.3f}" if name in found else "" for name in names), style="bold" if policy == "predictive" else None
        )
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """0: everything holds; 1: a line does not."""
    arguments = _arguments(argv)
    console = Console(stderr=arguments.json)
    if not console.is_terminal:
        console = Console(stderr=arguments.json, width=_LOG_WIDTH)
    began = time.monotonic()
    cells = run(tasks(arguments.part or PARTS, arguments.sample), console, arguments.processes)
    summary = summarise(cells, time.monotonic() - began, plan_p99_ms())
    failed = failures(summary, cells)
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    more = details(cells)
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (out / "details.json").write_text(json.dumps(more, indent=2) + "\n")
    (out / "cells.jsonl").write_text("".join(json.dumps(asdict(cell)) + "\n" for cell in cells))
    shares = {name: png(figure) for name, figure in ratios(cells).items()}
    (out / "report.html").write_text(render(shares, summary, more, failed))
    for name, image in {**shares, "costs": png(costs_over_load())}.items():
        (out / f"{name}.png").write_bytes(image)
    if arguments.json:
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    for part in PARTS:
        if summary[part]:
            console.print(_table(summary, part))
    console.print(f"{summary['cells']} cells in {summary['seconds']:.0f} s; plan() p99 {summary['plan_p99_ms']} ms.")
    console.print(f"Report: {out / 'report.html'}   Summary: {out / 'summary.json'}", soft_wrap=True)
    for failure in failed:
        console.print(f"Failed: {failure}", style="red", markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
