"""`report.html`: one file that can be mailed, with its plots inside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from e2e.bench_policy.cells import CLOSED, LAB, PARTS, WIDE, Task, all_pairs, load_of, tasks
from e2e.bench_policy.work import POLICIES
from mtpilot.drawing import png
from mtpilot.simulate import catalogue
from mtpilot.simulate.compare import compare
from mtpilot.simulate.driver import Site
from mtpilot.simulate.plot import comparison

_TEMPLATES = Path(__file__).resolve().parent
SHOWN = {  # cells that are drawn minute by minute, where their part was run
    LAB: ("m-large", "qwen3.5-122b", 4, 1.1),
    WIDE: ("m-mid", "sgl-q35-397b-lukealonso@16384", 8, 0.9),
    CLOSED: ("day 4, night 128", "qwen3.5-122b", 4, 0.0),
}
_DRAWN = ("always_mtp", "always_batch", "threshold_running", "threshold_demand", "predictive")


def render(shares: Mapping[str, bytes], summary: Mapping[str, Any], details: Mapping[str, Any], failed: Sequence[str]) -> str:
    """The report as HTML. shares: by part, the PNG of `drawings.ratios`."""
    ran = [name for name in PARTS if summary[name]]
    template = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return template.get_template("report.html.j2").render(
        summary=summary,
        details=details,
        failures=failed,
        ran=ran,
        policies=POLICIES,
        descriptions=catalogue.DESCRIPTIONS,
        ratios={name: _image(image) for name, image in shares.items()},
        examples={name: _image(png(comparison(example(name)))) for name in ran},
    )


def example(name: str) -> Any:
    """The comparison of the part's drawn cell."""
    load_name, pair, replicas, share = SHOWN[name]
    task = next(task for task in tasks([name]) if _is_shown(task, load_name, replicas, share))
    load = load_of(task, pair)
    curves = all_pairs()[pair]
    site = Site(curves=curves, replicas=replicas, flip_minutes=task.flip_minutes, output_tokens=load.output_tokens)
    return compare(site, load, catalogue.calibration(pair, curves), _DRAWN)


def _is_shown(task: Task, load: str, replicas: int, share: float) -> bool:
    return (task.load, task.replicas, task.share) == (load, replicas, share) and task.flip_minutes == 4


def _image(png_bytes: bytes) -> str:
    return base64.b64encode(png_bytes).decode("ascii")
