"""`mtpilot plan`: what the operator would do with a saved snapshot, from the same function that it calls."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.model.plan import Action, Plan
    from mtpilot.model.snapshot import Snapshot


def plan(
    file: Annotated[Path, typer.Option("--file", "-f", help="Snapshot, as `mtpilot snapshot` saves it.")],
    now: Annotated[str | None, typer.Option(help="Time of the decision, RFC 3339; default: when the snapshot was taken.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the plan of a snapshot: the decision, the actions in order, events, and what would change in status."""
    from mtpilot.adapters.snapshot_file import load_snapshot
    from mtpilot.reconcile import plan as decide

    try:
        snapshot = load_snapshot(file)
    except (OSError, ValueError) as error:
        exits.leave(exits.in_words(error, file), exits.USAGE)
    try:
        at = datetime.fromisoformat(now) if now else snapshot.taken_at or datetime.now(UTC)
    except ValueError:
        exits.leave(f"--now: {now!r} is no RFC 3339 time, like 2026-12-01T12:00:00Z", exits.USAGE)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    made = decide(snapshot, at)
    if as_json:
        typer.echo(json.dumps(plan_document(snapshot, made), indent=2, ensure_ascii=False))
    else:
        _show(snapshot, made)


def plan_document(snapshot: "Snapshot", made: "Plan") -> dict[str, Any]:
    """A plan as plain data: actions in words and whole, events, the status and its difference to the one before."""
    status = made.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    before = snapshot.service.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "service": f"{snapshot.service.namespace}/{snapshot.service.name}",
        "decision": status.get("decision"),
        "actions": [{"action": type(action).__name__, "text": describe_action(action)} for action in made.actions],
        "events": [{"type": event.type.value, "reason": str(event.reason), "message": event.message} for event in made.events],
        "writeStatus": made.write_status,
        "statusChanges": {path: {"from": old, "to": new} for path, old, new in differences(before, status)},
        "status": status,
        "requeueSeconds": made.requeue_seconds,
    }


def describe_action(action: "Action") -> str:
    """An action in a line."""
    from mtpilot.model.plan import ApplyObject, DeleteObject, EnsureSecret, ReleaseService, SetRolloutState, SetServing
    from mtpilot.model.slots import encode_state

    match action:
        case ApplyObject():
            kind, name = action.manifest["kind"], action.manifest["metadata"]["name"]
            return f"apply {kind} {name}" + (f": {action.why}" if action.why else "")
        case EnsureSecret():
            return f"create Secret {action.manifest['metadata']['name']} unless it is there"
        case SetRolloutState():
            return f"write on {action.kind} {action.slot}: {encode_state(action.state)}"
        case SetServing():
            return f"{'give traffic to' if action.serving else 'take traffic from'} pod {action.pod}"
        case DeleteObject():
            return f"delete {action.kind} {action.name}" + (f": {action.why}" if action.why else "")
        case ReleaseService():
            return "take the finalizer off: nothing is left to drain"


def differences(before: Any, after: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves that differ between two JSON documents, as (path, old, new)."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after}):
            found += differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        found = []
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            found += differences(old, new, f"{path}[{index}]")
        return found
    return [] if before == after else [(path, before, after)]


def _show(snapshot: "Snapshot", made: "Plan") -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    document = plan_document(snapshot, made)
    decision = document["decision"] or {}
    console.print(f"[bold]{document['service']}[/bold]  {decision.get('reason', 'no decision')}: {escape(decision.get('message', ''))}")
    for number, action in enumerate(document["actions"], 1):
        console.print(f"  {number}. {escape(action['text'])}")
    if not document["actions"]:
        console.print("  nothing to do")
    for event in document["events"]:
        console.print(f"  event {event['type']} {event['reason']}: {escape(event['message'])}")
    verb = "status is written" if made.write_status else "status is not worth a write"
    console.print(f"  {verb}; look again within {made.requeue_seconds:g}s")
    for path, change in document["statusChanges"].items():
        console.print(f"    {escape(path)}: {escape(_short(change['from']))} → {escape(_short(change['to']))}")


def _short(value: Any) -> str:
    text = "–" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}…"
