"""`mtpilot explain`: why a service is as it is, in plain words, from its live status."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .access import NamespaceOption, chosen_namespace, read_service
from .outlook import calibration_lines, cost_lines, load_lines, loop_lines, profile_lines

if TYPE_CHECKING:
    from mtpilot.api.status import Condition, InferenceServiceStatus, SlotStatus
    from mtpilot.model.snapshot import Service


def explain(
    name: Annotated[str, typer.Argument(help="Name of the InferenceService.")],
    namespace: NamespaceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which modes a service runs, why, since when, what would change it, and what it waits for."""
    namespace = chosen_namespace(namespace)
    service = asyncio.run(read_service(name, namespace))
    sections = explanation(service, datetime.now(UTC))
    if as_json:
        document = {"service": f"{namespace}/{name}", **sections, "numbers": numbers(service)}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{namespace}/{name}")
    for title, lines in sections.items():
        typer.echo(f"{title}:")
        for line in lines:
            typer.echo(f"  {line}")


def explanation(service: "Service", now: datetime) -> dict[str, list[str]]:
    """Titles and sentences; an empty section is left out."""
    status = service.status
    if not status.conditions and status.decision is None:
        return {"now": ["The operator has not looked at this service yet. Is it running, and does it serve this namespace?"]}
    sections = {
        "now": _now(service, now),
        "decided by": [] if service.deleting_since is not None else profile_lines(status),
        "calibration": [] if service.deleting_since is not None else calibration_lines(status),
        "why": _why(service, now),
        "ahead": [] if service.deleting_since is not None else cost_lines(status),
        "would change it": _change(service),
        "waits for": _waits(status, now),
        "troubles": [_condition(found, now) for found in status.conditions if _is_trouble(found)],
        "recently": [
            f"{_when(entry.at, now)}: {entry.slot} {entry.from_mode} → {entry.to_mode}, {_OUTCOMES.get(entry.outcome, entry.outcome)}"
            + (f" after {entry.seconds}s" if entry.seconds is not None else "")
            + f" ({entry.reason})"
            for entry in list(status.history)[-5:]
        ],
    }
    return {title: lines for title, lines in sections.items() if lines}


def numbers(service: "Service") -> dict[str, Any]:
    """The numbers behind the sentences, as status has them."""
    parts = {"mix", "recommended", "demand", "loop", "profile", "decision", "flip", "calibration"}
    return service.status.model_dump(mode="json", by_alias=True, exclude_none=True, include=parts)


def _now(service: "Service", now: datetime) -> list[str]:
    status = service.status
    lines = [f"{status.summary.mix or 'no replicas'}; {status.summary.ready or '0/0'} ready."]
    if status.recommended is not None and status.recommended != status.mix:
        lines.append(f"Recommended: {status.recommended.mtp} mtp / {status.recommended.batch} batch.")
    lines.append(f"Policy mode {service.spec.policy.mode}." + _pinned(service))
    if status.demand is not None:
        demand = status.demand
        accepted = f", accept length {demand.accept_length}" if demand.accept_length else ""
        seen = f"{demand.output_tokens_per_second} output tokens/s, {demand.in_flight} in flight, {demand.queued} queued"
        lines.append(f"Load{_as_of(status, now)}: {seen}{accepted}.")
        lines += loop_lines(status)
    if status.observed_generation < service.generation:
        lines.append(f"The spec changed (generation {service.generation}); the operator has seen {status.observed_generation}.")
    return lines


def _as_of(status: "InferenceServiceStatus", now: datetime) -> str:
    """When the numbers were written: they are refreshed once a minute at most, so a load that ended may still stand there."""
    written = status.policy.observed_at
    return f" at {_when(written, now)}" if written else ""


def _pinned(service: "Service") -> str:
    pinned = service.spec.policy.pinned
    return f" Pinned to {pinned.mtp} mtp / {pinned.batch} batch." if pinned is not None else ""


def _change(service: "Service") -> list[str]:
    decision = service.status.decision
    if service.deleting_since is not None:
        return []
    loads = load_lines(service.status) if service.spec.policy.mode != "Pinned" else []  # a pinned mix follows no load
    return ([decision.would_change] if decision is not None and decision.would_change else []) + loads


def _why(service: "Service", now: datetime) -> list[str]:
    """The decision; while the service is deleted none is made, and the last one would mislead."""
    decision = service.status.decision
    if service.deleting_since is not None:
        return [f"It is being deleted. Since {_when(service.deleting_since.isoformat(), now)}."]
    if decision is None:
        return []
    since = f" Since {_when(decision.at, now)}." if decision.at else ""
    return [f"{decision.reason}: {decision.message}.{since}".replace("..", ".")]


def _waits(status: "InferenceServiceStatus", now: datetime) -> list[str]:
    return [_slot(slot, now) for slot in status.slots if slot.phase != "Serving"]


def _slot(slot: "SlotStatus", now: datetime) -> str:
    target = f", on its way to {slot.desired_mode}" if slot.desired_mode and slot.desired_mode is not slot.mode else ""
    since = f" since {_when(slot.since, now)}" if slot.since else ""
    deadline = f"; deadline {_ahead(slot.deadline, now)}" if slot.deadline else ""
    message = f": {slot.message}" if slot.message else ""
    return f"{slot.name} ({slot.mode}{target}) is {slot.phase}{since}{message}{deadline}"


_OUTCOMES = {"Started": "under way", "Completed": "completed", "RolledBack": "rolled back"}
_BAD_WHEN_TRUE = frozenset({"Degraded"})
_FINE_WHEN_FALSE = frozenset({"ModeSettled", "Calibrated"})


def _is_trouble(condition: "Condition") -> bool:
    if condition.type in _FINE_WHEN_FALSE:
        return False
    if condition.type in _BAD_WHEN_TRUE:
        return condition.status == "True"
    return condition.status != "True"  # what is unknown is no reassurance


def _condition(condition: "Condition", now: datetime) -> str:
    return (
        f"{condition.type}={condition.status} ({condition.reason}) since {_when(condition.last_transition_time, now)}: {condition.message}"
    )


def _when(text: str, now: datetime) -> str:
    """A time as the messages have it, to compare with logs, and how long ago it was."""
    at = datetime.fromisoformat(text)
    return f"{at:%H:%M:%SZ} ({_ago(text, now)})" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%SZ} ({_ago(text, now)})"


def _ago(text: str, now: datetime) -> str:
    seconds = (now - datetime.fromisoformat(text)).total_seconds()
    return f"{_span(seconds)} ago" if seconds >= 1 else "just now"


def _ahead(text: str, now: datetime) -> str:
    seconds = (datetime.fromisoformat(text) - now).total_seconds()
    return f"in {_span(seconds)}" if seconds > 0 else f"passed {_span(-seconds)} ago"


def _span(seconds: float) -> str:
    whole = timedelta(seconds=round(seconds))
    hours, rest = divmod(int(whole.total_seconds()), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"
