"""Faults on demand: what can go wrong with a server, as one document.

Tests and the demo set it through the environment or a file before the start, or through `POST /sim/faults` while the
server runs. Each field is one symptom that an operator meets; nothing here is random.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sglang_sim.settings import Settings

ROW_FAULTS = ("swap", "merge", "truncate")


@dataclass(slots=True, kw_only=True)
class Faults:
    """The faults in force. Lists of metric names take "*" for all gauges; lists of modes take "mtp" and "batch"."""

    nan_gauges: list[str] = field(default_factory=list)
    missing_gauges: list[str] = field(default_factory=list)
    frozen_gauges: bool = False
    empty_metrics: bool = False
    loads_error: bool = False
    hang: bool = False
    health_seconds: float | None = None
    ready: bool = True
    crash: bool = False
    ignore_sigterm: bool = False
    slow_factor: float = 1.0
    accept_length: float | None = None
    rows: str | None = None
    crash_on_start: list[str] = field(default_factory=list)
    never_ready: list[str] = field(default_factory=list)

    def update(self, document: Mapping[str, Any]) -> None:
        """Set the named faults and leave the others; ValueError for an unknown name or a value of the wrong kind."""
        known = {item.name for item in fields(self)}
        unknown = set(document) - known
        if unknown:
            raise ValueError(f"unknown fault: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
        for name, value in document.items():
            setattr(self, name, _checked(name, value))

    def clear(self) -> None:
        """Back to a healthy server."""
        for item in fields(self):
            setattr(self, item.name, getattr(_HEALTHY, item.name))

    def document(self) -> dict[str, Any]:
        """All faults with their present values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


_HEALTHY = Faults()
_LISTS = {"nan_gauges", "missing_gauges", "crash_on_start", "never_ready"}
_NUMBERS = {"health_seconds", "slow_factor", "accept_length"}


def _checked(name: str, value: Any) -> Any:
    if name in _LISTS:
        if not (isinstance(value, list) and all(isinstance(word, str) for word in value)):
            raise ValueError(f"{name}: a list of strings is needed")
        return list(value)
    if name in _NUMBERS:
        if value is None and name != "slow_factor":
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ValueError(f"{name}: a number of at least 0 is needed")
        return float(value)
    if name == "rows":
        if value is not None and value not in ROW_FAULTS:
            raise ValueError(f"rows: one of {', '.join(ROW_FAULTS)} or null is needed")
        return value
    if not isinstance(value, bool):
        raise ValueError(f"{name}: true or false is needed")
    return value


def at_start(settings: Settings) -> Faults:
    """The faults a server starts with: those of the environment, then those of the fault file, read anew at every start."""
    faults = Faults(crash_on_start=list(settings.crash_on_start), never_ready=list(settings.never_ready))
    if settings.fault_file and Path(settings.fault_file).is_file():
        text = Path(settings.fault_file).read_text().strip()
        faults.update(json.loads(text) if text else {})
    return faults
