"""The chart's Grafana dashboard without Grafana: its panels' queries asked of a Prometheus, and a picture of the answers.

    python -m e2e.chart_dashboard SERIES.json PICTURE.png

SERIES.json is what `ask` gave, as the integration test of the dashboard keeps it where MTPILOT_DASHBOARD_SERIES names a file.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp

from e2e.chart import CHART

DASHBOARD = CHART / "files" / "dashboard.json"
_COLUMNS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One query of a panel: `series` maps a legend to (unix seconds, value) pairs without NaN; none: no series at all."""

    panel: str
    query: str
    series: dict[str, list[tuple[float, float]]]


def queries(variables: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(panel, query, legend) of every target, with `$NAME` replaced by its value."""
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(f"${name}", value)
            yield panel["title"], expression, target["legendFormat"]


async def ask(url: str, variables: Mapping[str, str], *, start: float, end: float, step_seconds: float = 1.0) -> list[Answer]:
    """Ask every query over a span of time.

    Raises:
        AssertionError: Prometheus refuses one.
    """
    found = []
    async with aiohttp.ClientSession() as session:
        for panel, query, legend in queries(variables):
            parameters = {"query": query, "start": f"{start}", "end": f"{end}", "step": f"{step_seconds}"}
            async with session.get(f"{url}/api/v1/query_range", params=parameters) as answer:
                document = await answer.json()
            assert document["status"] == "success", (query, document)  # noqa: S101  a broken query is a broken dashboard
            found.append(Answer(panel=panel, query=query, series=_series(document["data"]["result"], legend)))
    return found


def _series(result: list[dict[str, Any]], legend: str) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for entry in result:
        name = legend
        for key, value in entry["metric"].items():
            name = name.replace("{{" + key + "}}", value)
        points = [(float(at), float(value)) for at, value in entry["values"] if not math.isnan(float(value))]
        if points:
            found[name] = points
    return found


def save(answers: list[Answer], path: Path) -> None:
    """Keep answers for `load`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(answer) for answer in answers]), "utf-8")


def load(path: Path) -> list[Answer]:
    """What `save` kept."""
    return [Answer(**entry) for entry in json.loads(path.read_text("utf-8"))]


def draw(answers: list[Answer], path: Path) -> None:
    """One small plot for each panel, seconds since the first sample along the bottom."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    panels = list(dict.fromkeys(answer.panel for answer in answers))
    lines = [points for answer in answers for points in answer.series.values()]
    begin, end = min(points[0][0] for points in lines), max(points[-1][0] for points in lines)
    step = min((after - before for points in lines for (before, _), (after, _) in pairwise(points)), default=1.0)
    rows = math.ceil(len(panels) / _COLUMNS)
    figure, axes = plt.subplots(rows, _COLUMNS, figsize=(4.2 * _COLUMNS, 2.4 * rows), layout="constrained", squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set_title(panel, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(visible=True, linewidth=0.3)
        for answer in answers:
            if answer.panel == panel:
                for name, points in sorted(answer.series.items()):
                    whole = _with_gaps(points, step)
                    axis.plot([at - begin for at, _ in whole], [value for _, value in whole], ".-", label=name, linewidth=1.1, markersize=2)
        axis.set_ylim(bottom=0)
        axis.set_xlim(0, end - begin)
        if axis.lines:
            axis.legend(fontsize=6, loc="best")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _with_gaps(points: list[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """NaN where a sample is missing, so that no line is drawn over a time in which there was no series."""
    found = points[:1]
    for (before, _), (after, value) in pairwise(points):
        if after - before > 1.5 * step:
            found.append((before, math.nan))
        found.append((after, value))
    return found


if __name__ == "__main__":
    draw(load(Path(sys.argv[1])), Path(sys.argv[2]))
