"""`python -m e2e.bench_policy.picture`: draw the plot of docs/simulate.md."""

from __future__ import annotations

from pathlib import Path

from e2e.bench_policy.cells import LAB
from e2e.bench_policy.report import example
from mtpilot.drawing import png
from mtpilot.simulate.plot import comparison

TARGET = Path(__file__).resolve().parents[2] / "docs" / "images" / "simulate-day.png"

if __name__ == "__main__":
    TARGET.write_bytes(png(comparison(example(LAB))))
