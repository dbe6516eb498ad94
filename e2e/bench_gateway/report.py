"""`report.html`: one file that can be mailed, with its plots inside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from e2e.bench_gateway import plots
from e2e.bench_gateway.run import Outcome


def render(
    outcome: Outcome, summary: Mapping[str, Any], details: Mapping[str, Any], failures: Sequence[str], warnings: Sequence[str]
) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    images = {"comparison": plots.comparison(summary), "latencies": plots.latencies(outcome), "omlx": plots.omlx(summary)}
    return environment.get_template("report.html.j2").render(
        summary=summary,
        details=details,
        failures=failures,
        warnings=warnings,
        names={name: text.replace("\n", " ") for name, text in plots.NAMES.items()},
        problems=[f"{name}: {problem}" for name, row in details["rows"].items() for problem in row["problems"]],
        images={name: base64.b64encode(image).decode("ascii") for name, image in images.items()},
    )
