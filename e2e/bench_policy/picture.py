"""`python -m e2e.bench_policy.picture [CELLS]`: draw the plots of docs/simulate.md and docs/decision.md.

CELLS: `cells.jsonl` of a run of the bench; without it, what is drawn from cells stays as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from e2e.bench_policy.cells import LAB
from e2e.bench_policy.drawings import costs_over_load, ratios
from e2e.bench_policy.report import example
from e2e.bench_policy.work import Cell
from mtpilot.drawing import png
from mtpilot.simulate.plot import comparison

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def main(argv: list[str]) -> None:
    (IMAGES / "simulate-day.png").write_bytes(png(comparison(example(LAB))))
    (IMAGES / "decision-costs.png").write_bytes(png(costs_over_load()))
    for path in map(Path, argv):
        cells = [Cell(**json.loads(line)) for line in path.read_text().splitlines()]
        for name, figure in ratios(cells).items():
            (IMAGES / f"decision-{name}.png").write_bytes(png(figure))


if __name__ == "__main__":
    main(sys.argv[1:])
