"""The `mtpilot` command.

Each subcommand's libraries are imported when it runs: `mtpilot --help` must not wait for a Kubernetes client.

Exit status: 0 done · 1 it failed, or `--check` found a difference · 2 wrong usage or an unreadable file · 3 no such object.
"""

import json
from typing import Annotated

import typer

from . import exits
from .bench import bench
from .capacity import capacity
from .cleanup import cleanup
from .crds import crds
from .evidence import evidence
from .explain import explain
from .gateway_agent import gateway_agent
from .plan import plan
from .profile import profile
from .run import run
from .simulate import simulate
from .snapshot import snapshot

app = typer.Typer(
    name="mtpilot",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run SGLang replicas in two modes, mtp and batch, and keep the right mix of them.",
    epilog=exits.EPILOG,
)
app.command()(run)
app.command()(plan)
app.command()(explain)
app.command()(snapshot)
app.command()(crds)
app.command()(capacity)
app.command()(simulate)
app.command()(bench)
app.command()(cleanup)
app.command("gateway-agent")(gateway_agent)
app.add_typer(profile)
app.add_typer(evidence)


@app.command()
def version(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Print the version."""
    from mtpilot.telemetry.metrics import version as installed

    typer.echo(json.dumps({"version": installed()}) if as_json else installed())


def main() -> None:
    """Entry point of the console script."""
    app()
