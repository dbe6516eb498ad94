"""What the node knows of each container, in the three states that Kubernetes has.

Kept apart from the code that runs containers, so that the status shown to the API server is a pure function of these records.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Not running yet, or again; `reason` is one of the kubelet's words."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Running since `started_at`."""

    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """Ended; `exit_code` is 128 + n for a signal n, as container runtimes report it."""

    exit_code: int
    reason: str
    started_at: str
    finished_at: str
    container_id: str = ""
    message: str = ""


State = Waiting | Running | Terminated


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """One container of one pod; `started` is None before it first runs."""

    name: str
    image: str
    state: State
    last: Terminated | None = None
    restart_count: int = 0
    started: bool = False
    ready: bool = False
    container_id: str = ""
    restartable: bool = False

    def status(self) -> dict[str, Any]:
        """Give the ContainerStatus."""
        status: dict[str, Any] = {
            "name": self.name,
            "image": self.image,
            "imageID": f"process://{self.image}",
            "state": _state(self.state),
            "lastState": {"terminated": _terminated(self.last)} if self.last is not None and self.last is not self.state else {},
            "restartCount": self.restart_count,
            "ready": self.ready,
            "started": self.started,
        }
        if self.container_id:
            status["containerID"] = self.container_id
        return status


def timestamp(at: datetime.datetime | None = None) -> str:
    """Write a time as Kubernetes does: UTC, whole seconds."""
    return (at or datetime.datetime.now(datetime.UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _state(state: State) -> dict[str, Any]:
    match state:
        case Waiting():
            waiting = {"reason": state.reason}
            return {"waiting": waiting | ({"message": state.message} if state.message else {})}
        case Running():
            return {"running": {"startedAt": state.started_at}}
        case Terminated():
            return {"terminated": _terminated(state)}


def _terminated(state: Terminated) -> dict[str, Any]:
    written: dict[str, Any] = {
        "exitCode": state.exit_code,
        "reason": state.reason,
        "startedAt": state.started_at,
        "finishedAt": state.finished_at,
    }
    if state.container_id:
        written["containerID"] = state.container_id
    if state.message:
        written["message"] = state.message
    return written
