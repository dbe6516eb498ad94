"""`python -m e2e.kind up|down|status|test`: keep the cluster of the end-to-end tests, or make it, run them and delete it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from e2e.kind import cluster
from e2e.kind.config import ROOT
from e2e.offline.commands import OfflineError
from e2e.toolchain import ToolchainError

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object")]
REPORT = ROOT / "out" / "e2e" / "report.json"


def _up() -> cluster.KindCluster:
    try:
        return cluster.up(Console(stderr=True))
    except (OfflineError, ToolchainError) as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(1) from None


def _show(found: cluster.KindCluster, as_json: bool) -> None:
    described = {"running": True, "kubeconfig": str(found.admin_kubeconfig), "gateway_url": found.gateway_url}
    described |= {"audit_log": str(found.audit_log_path)}
    if as_json:
        sys.stdout.write(json.dumps(described) + "\n")
        return
    for key, value in described.items():
        sys.stdout.write(f"{key.replace('_', ' ')}\t{value}\n")


@app.command()
def up(json_output: JsonOption = False) -> None:
    """Make the cluster, or find it, and say how to reach it. The first time takes 12 minutes on 2 cores, later ones one."""
    _show(_up(), json_output)


@app.command()
def down() -> None:
    """Delete the cluster, and end docker where it was started for it; what was built stays in the cache."""
    cluster.down()


@app.command()
def status(json_output: JsonOption = False) -> None:
    """Say whether the cluster runs (exit code 0) or not (3), and how to reach it."""
    found = cluster.KindCluster.found()
    if found is None:
        sys.stdout.write('{"running": false}\n' if json_output else "no cluster is running\n")
        raise typer.Exit(3)
    _show(found, json_output)


@app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_tests(
    context: typer.Context,
    keep: Annotated[bool, typer.Option("--keep", help="leave the cluster for the next run")] = False,
) -> None:
    """Run tests/e2e; further arguments are pytest's. The cluster is deleted at the end."""
    started = time.monotonic()
    try:
        _up()
        set_up_seconds = time.monotonic() - started
        command = [sys.executable, "-m", "pytest", "-p", "no:xdist", *(context.args or ["tests/e2e"])]
        code = subprocess.run(command, cwd=ROOT, env=os.environ | {"MTPILOT_E2E_REPORT": str(REPORT)}, check=False).returncode
    finally:
        if not keep:
            cluster.down()
    if REPORT.exists():
        _finish(REPORT, set_up_seconds)
    raise typer.Exit(code)


def _finish(path: Path, set_up_seconds: float) -> None:
    """Add what the cluster took to the report, and show it."""
    document: dict[str, Any] = json.loads(path.read_text()) | {"set_up_seconds": round(set_up_seconds, 1)}
    path.write_text(json.dumps(document, indent=1) + "\n")
    table = Table("scenario", "outcome", "seconds", "sent", "lost", box=None)
    for line in document["scenarios"]:
        table.add_row(*(str(line[key]) for key in ("scenario", "outcome", "seconds", "requests_sent", "requests_lost")))
    Console().print(table)
    Console().print(f"cluster and images: {set_up_seconds:.0f} s; report: {path.relative_to(ROOT)}", highlight=False)


if __name__ == "__main__":
    app()
