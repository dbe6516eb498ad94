"""`report.html`: one file that can be mailed, with its plots inside.

Made from the outcome alone, so that it can be rendered again from saved records and a saved timeline.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from e2e.demo import plots
from e2e.demo.parameters import compression
from e2e.demo.shaping import TraceRow
from e2e.demo.summary import AUTO, READING, Outcome, failed_checks, warnings
from e2e.load.schedule import Schedule

_TEMPLATES = Path(__file__).resolve().parent


def _image(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _flips(outcome: Outcome) -> list[dict[str, Any]]:
    window = outcome.timeline.window(AUTO)
    if window is None:
        return []
    inside = [flip for flip in outcome.timeline.flips.values() if flip.service == window.service]
    rows = []
    for flip in sorted(inside, key=lambda flip: flip.at):
        columns = ("slot", "from_mode", "to_mode", "outcome", "seconds", "reason", "message")
        rows.append({"second": max(0.0, flip.at - window.start)} | {name: getattr(flip, name) for name in columns})
    return rows


def _marks(outcome: Outcome) -> list[dict[str, Any]]:
    window = outcome.timeline.window(AUTO)
    if window is None:
        return []
    inside = [mark for mark in outcome.timeline.marks if window.start <= mark.at <= window.end]
    return [{"second": mark.at - window.start, "reason": mark.reason, "message": mark.message} for mark in inside]


def render(outcome: Outcome, summary: Mapping[str, Any], schedule: Schedule, trace: Sequence[TraceRow]) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    parameters = outcome.parameters
    factors = compression(parameters, trace).points
    points = [(at, share, factor) for (at, share), (_, factor) in zip(parameters.shares, factors, strict=True)]
    return environment.get_template("report.html.j2").render(
        title=f"{parameters.replicas} replicas, {schedule.seconds:.0f} s of load",
        summary=summary,
        reading=READING,
        parameters=summary["parameters"],
        failures=failed_checks(summary, baselines=parameters.baselines),
        warnings=warnings(summary),
        names=plots.NAMES,
        flips=_flips(outcome),
        marks=_marks(outcome),
        schedule={"requests": len(schedule.requests), "points": points},
        images={
            "comparison": _image(plots.comparison(summary)),
            "auto": _image(plots.auto_run(outcome, schedule)),
            "throughput": _image(plots.throughput(outcome)),
        },
    )
