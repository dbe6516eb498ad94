"""`python -m e2e.clusters up|down|status`: keep one local cluster for hand work.

`up` leaves a keeper process behind that owns the cluster; its folder in the user cache holds the kubeconfig, the logs and the keeper's
pid, so any terminal can find and end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from e2e import toolchain
from e2e.clusters.local import LocalCluster
from e2e.clusters.local.launch import start_time
from e2e.clusters.local.process import read_pid_file, sweep
from e2e.toolchain import cache
from e2e.toolchain.catalogue import CLUSTER_TOOLS

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object")]

_START_SECONDS = 120.0
_STOP_SECONDS = 40.0
_REPOSITORY = Path(__file__).resolve().parents[2]


def _folder() -> Path:
    return cache.cache_root() / "cluster"


def _keeper_pid() -> int | None:
    return read_pid_file(_folder() / "keeper.pid")


def _description() -> dict[str, Any] | None:
    """Give what the keeper wrote once the cluster was up, if that keeper still runs."""
    path = _folder() / "cluster.json"
    if _keeper_pid() is None or not path.exists():
        return None
    described: dict[str, Any] = json.loads(path.read_text())
    return described


def _show(described: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(described) + "\n")
        return
    table = Table(show_header=False, box=None)
    for key, value in described.items():
        table.add_row(key.replace("_", " "), str(value))
    Console(soft_wrap=True).print(table)
    for variable, key in (("KUBECONFIG", "kubeconfig"), ("MTPILOT_PROMETHEUS_URL", "prometheus_url")):
        Console(soft_wrap=True).print(f"[bold]export {variable}={described[key]}[/]", highlight=False)


@app.command()
def up(
    scrape_interval: Annotated[float, typer.Option(help="seconds between two scrapes by Prometheus")] = 2.0,
    json_output: JsonOption = False,
) -> None:
    """Start the cluster if it does not run yet, and say how to reach it."""
    toolchain.ensure(CLUSTER_TOOLS)
    with cache.exclusive(cache.cache_root()):
        described = _description() or _start_keeper(scrape_interval)
    _show(described, as_json=json_output)


def _start_keeper(scrape_interval: float) -> dict[str, Any]:
    folder = _folder()
    sweep(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log_path = folder / "keeper.log"
    command = [sys.executable, "-m", "e2e.clusters", "keep", "--scrape-interval", str(scrape_interval)]
    with log_path.open("wb") as log:
        keeper = subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and keeper.poll() is None:
        described = _description()
        if described is not None:
            return described
        time.sleep(0.2)
    keeper.terminate()
    Console(stderr=True).print(
        f"[red]error:[/] the cluster did not come up; see {log_path}\n{log_path.read_text()[-2000:]}", highlight=False
    )
    raise typer.Exit(1)


@app.command()
def down() -> None:
    """Stop the cluster and everything in it; nothing happens when none runs."""
    pid = _keeper_pid()
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _keeper_pid() is not None:
        if time.monotonic() > deadline:
            Console(stderr=True).print(f"[red]error:[/] keeper {pid} did not stop; see {_folder() / 'keeper.log'}")
            raise typer.Exit(1)
        time.sleep(0.1)


@app.command()
def status(json_output: JsonOption = False) -> None:
    """Say whether the cluster runs (exit code 0) or not (3), and how to reach it."""
    described = _description()
    if described is None:
        sys.stdout.write('{"running": false}\n' if json_output else "no cluster is running\n")
        raise typer.Exit(3)
    _show(described, as_json=json_output)


@app.command(hidden=True)
def keep(scrape_interval: float = 2.0) -> None:
    """Own the cluster until SIGTERM."""
    asyncio.run(_keep(scrape_interval))


async def _keep(scrape_interval: float) -> None:
    folder = _folder()
    (folder / "keeper.pid").write_text(f"{os.getpid()} {start_time(os.getpid())}\n")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        async with LocalCluster.start(state_dir=folder / "state", scrape_interval_seconds=scrape_interval) as cluster:
            described = {
                "running": True,
                "kubeconfig": str(cluster.admin_kubeconfig),
                "server": cluster.server,
                "prometheus_url": cluster.prometheus_url,
                "logs": str(cluster.state_dir / "logs"),
                "audit_log": str(cluster.audit_log_path),
            }
            temporary = folder / "cluster.json.new"
            temporary.write_text(json.dumps(described))
            temporary.replace(folder / "cluster.json")
            await ended.wait()
    finally:
        with contextlib.suppress(FileNotFoundError):
            (folder / "cluster.json").unlink()
            (folder / "keeper.pid").unlink()


if __name__ == "__main__":
    app()
