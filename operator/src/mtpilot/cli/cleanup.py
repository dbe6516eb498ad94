"""`mtpilot cleanup`: what to do before the operator leaves a cluster."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.adapters.kube.leaving import Found, Outcome


def cleanup(  # noqa: PLR0917 - the options of a command
    namespace: Annotated[list[str] | None, typer.Option("--namespace", "-n", help="Clean up this namespace; may be repeated.")] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Clean up all namespaces.")] = False,
    operator: Annotated[
        str | None, typer.Option(help="NAMESPACE/NAME of the operator's Deployment, to be scaled to 0. Without it, end the operator first.")
    ] = None,
    stop_serving: Annotated[
        bool, typer.Option("--stop-serving", help="Delete every InferenceService first, and wait until the operator has drained it.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Wait for drains, and for the operator's end, this long, in seconds.")] = 240.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")] = False,
) -> None:
    """Take the operator's finalizer off every InferenceService, so that none is stuck without it. Replicas and gateways serve on."""
    if bool(namespace) == all_namespaces:
        exits.leave("say what to clean up: either -A, or -n NAMESPACE (repeatable)", exits.USAGE)
    if operator is not None and len([part for part in operator.split("/") if part]) != 2:
        exits.leave(f"--operator is NAMESPACE/NAME, not {operator!r}", exits.USAGE)
    outcome, found = asyncio.run(_run(tuple(namespace or ()), operator, stop_serving, timeout, dry_run))
    if as_json:
        typer.echo(json.dumps(document(outcome, found), indent=2))
    else:
        for line in lines(outcome, found):
            typer.echo(line)


async def _run(
    namespaces: tuple[str, ...], operator: str | None, stop_serving: bool, timeout_seconds: float, dry_run: bool
) -> tuple["Outcome | None", tuple["Found", ...]]:
    from mtpilot.adapters.kube.client import KubeClient
    from mtpilot.adapters.kube.leaving import Leaving
    from mtpilot.adapters.kube.paths import Ref
    from mtpilot.ports import ClusterError

    where, _, name = (operator or "").partition("/")
    deployment = Ref(api_version="apps/v1", kind="Deployment", namespace=where, name=name) if operator else None
    try:
        async with await KubeClient.connect() as client:
            leaving = Leaving(client=client, namespaces=namespaces, operator=deployment)
            if dry_run:
                return None, await leaving.find()
            outcome = await leaving.run(
                stop_serving=stop_serving, timeout_seconds=timeout_seconds, say=lambda text: typer.echo(f"mtpilot: {text}", err=True)
            )
            return outcome, ()
    except ClusterError as error:
        exits.leave(str(error), exits.FAILED)


def document(outcome: "Outcome | None", found: tuple["Found", ...]) -> dict[str, list[str]]:
    """The result as plain data; `found` of a dry run."""
    if outcome is None:
        return {"found": [str(service) for service in found]}
    return {
        "released": [str(service) for service in outcome.released],
        "ended": [str(service) for service in outcome.ended],
        "forced": [str(service) for service in outcome.forced],
    }


def lines(outcome: "Outcome | None", found: tuple["Found", ...]) -> list[str]:
    """The result for a person."""
    if outcome is None:
        said = [f"{service}: {_state(service)}" for service in found]
        return said or ["no InferenceService"]
    said = [f"{service} serves on without an operator" + _moving(service) for service in outcome.released]
    said += [f"{service} is gone" for service in outcome.ended]
    said += [f"{service} is deleted without waiting for its drain; its pods end within their grace period" for service in outcome.forced]
    if outcome.released:
        said.append("To end one: kubectl delete inferenceservices.mtpilot.dev NAME -n NAMESPACE. A new operator takes them over.")
    return said or ["no InferenceService: nothing to clean up"]


def _state(service: "Found") -> str:
    finalizer = "has the finalizer" if service.held else "has no finalizer"
    return f"{'being deleted, ' if service.deleting else ''}{finalizer}{_moving(service)}"


def _moving(service: "Found") -> str:
    return f"; not serving, and left as they are: {', '.join(service.moving)}" if service.moving else ""
