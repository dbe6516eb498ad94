"""What was observed during the demo, with Unix times: plain lists that the plots, the summary and the view read.

Recorded once, read by all: the report can be made again from a saved timeline without a cluster.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """Counters of the generator."""

    at: float
    sent: int
    completed: int
    failed: int
    in_flight: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSample:
    """Prometheus' view: requests that run, that wait in engines and that wait at the gateway."""

    at: float
    running: float
    queued: float
    gateway_queued: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSample:
    """Engine pods of a service by what they do; GPUs requested by its pods that are bound to a node and have not finished."""

    at: float
    service: str
    mtp: int
    batch: int
    draining: int
    loading: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened: a decision, a hold, a drain, a flip. `reason` is the operator's word for it."""

    at: float
    kind: str  # decision | event
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One entry of the service's history as it was last seen. `at` is the decision, `ended_at` when its outcome was seen."""

    at: float
    service: str
    slot: str
    from_mode: str
    to_mode: str
    outcome: str
    reason: str
    message: str
    seconds: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time of one policy's run on its service."""

    policy: str
    service: str
    start: float
    end: float


@dataclass(slots=True)
class Timeline:
    """Everything that was seen, in order of time."""

    load: list[LoadSample] = field(default_factory=list)
    engines: list[EngineSample] = field(default_factory=list)
    fleet: list[FleetSample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    flips: dict[str, Flip] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)

    def window(self, policy: str) -> Window | None:
        """The window of a policy's run, if it took place."""
        return next((window for window in self.windows if window.policy == policy), None)

    def flips_in(self, window: Window, *, to_mode: str, outcome: str = "Completed") -> list[Flip]:
        """Flips to `to_mode` decided and completed in a window (history keeps whole seconds, hence the margin of one)."""
        return [
            flip
            for flip in self.flips.values()
            if flip.service == window.service
            and flip.to_mode == to_mode
            and flip.outcome == outcome
            and window.start - 1 <= flip.at
            and (flip.ended_at or window.end + 1) <= window.end
        ]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Timeline:
        raw: dict[str, Any] = json.loads(path.read_text())
        return cls(
            load=[LoadSample(**item) for item in raw["load"]],
            engines=[EngineSample(**item) for item in raw["engines"]],
            fleet=[FleetSample(**item) for item in raw["fleet"]],
            marks=[Mark(**item) for item in raw["marks"]],
            flips={key: Flip(**item) for key, item in raw["flips"].items()},
            windows=[Window(**item) for item in raw["windows"]],
        )
