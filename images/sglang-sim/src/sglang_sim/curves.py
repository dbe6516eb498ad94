"""Throughput curves: output tokens per second of one replica against the number of requests it decodes.

A step of the simulator lasts exactly as long as the curve of its mode says, so a curve is all that a model and its
hardware are to the simulator. Between points the curve is a straight line in log-log, hence monotone where the points are.
"""

from __future__ import annotations

import csv
import io
import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODES = ("mtp", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCurve:
    """One mode's curve: (concurrency, output tok/s) points at `accept_length`, and the slots that the memory allows."""

    points: tuple[tuple[float, float], ...]
    slots: int
    accept_length: float = 1.0
    kv_tokens: int | None = None

    def __post_init__(self) -> None:
        concurrency = [point[0] for point in self.points]
        if not self.points or concurrency != sorted(set(concurrency)) or min(min(point) for point in self.points) <= 0:
            raise ValueError("a curve needs positive points in rising order of concurrency")
        if self.slots < 1 or self.accept_length < 1:
            raise ValueError("a curve needs at least one slot and an accept length of at least 1")

    def tokens_per_second(self, concurrency: float) -> float:
        """Output tok/s with `concurrency` requests decoding; the last point's rate beyond the last point."""
        first, last = self.points[0], self.points[-1]
        if concurrency >= last[0]:
            return last[1]
        if concurrency <= first[0]:
            return first[1] * concurrency / first[0]
        above = bisect_right([point[0] for point in self.points], concurrency)
        (c0, x0), (c1, x1) = self.points[above - 1], self.points[above]
        weight = math.log(concurrency / c0) / math.log(c1 / c0)
        return math.exp(math.log(x0) + weight * math.log(x1 / x0))

    def step_seconds(self, batch: int) -> float:
        """Seconds of one decode step with `batch` rows: each row gains `accept_length` tokens in it."""
        return batch * self.accept_length / self.tokens_per_second(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The curves of one model on one kind of hardware, with where they come from."""

    name: str
    source: str
    modes: Mapping[str, ModeCurve]
    context_length: int = 131_072


def _power(scale: float, exponent: float, levels: Sequence[int]) -> tuple[tuple[float, float], ...]:
    return tuple((float(level), scale * level**exponent) for level in levels)


BUILT_IN: Mapping[str, Curves] = {
    "qwen3.5-122b-4xrtxpro6000": Curves(
        name="qwen3.5-122b-4xrtxpro6000",
        source="Published report on Qwen3.5-122B-A10B, 4x RTX PRO 6000 Blackwell, SGLang, NEXTN with one draft token: mtp 121.5 and batch "
        "108 tok/s at one request, 1635 at 24 slots and 2800 at 68; power laws through both ends. Acceptance there is synthetic (2.0).",
        modes={
            "mtp": ModeCurve(points=_power(121.5, 0.83, (1, 2, 4, 8, 16, 24)), slots=24, accept_length=2.0),
            "batch": ModeCurve(points=_power(108.0, 0.771, (1, 2, 4, 8, 16, 24, 32, 48, 68)), slots=68),
        },
    ),
    "omlx-qwen3.8-27b": Curves(
        name="omlx-qwen3.8-27b",
        source="Published report on Qwen3.8-27B 4-bit, Apple M3 Ultra, oMLX: greedy, 1024 tokens of context, 1 and 4 requests; at 4 mtp "
        "is the mixed route. Accept length was not reported; 1.5 is assumed.",
        modes={
            "mtp": ModeCurve(points=((1.0, 45.69), (4.0, 69.34)), slots=4, accept_length=1.5),
            "batch": ModeCurve(points=((1.0, 35.98), (4.0, 107.4)), slots=4),
        },
    ),
}


def _mode_from_document(document: Mapping[str, Any]) -> ModeCurve:
    points = tuple((float(c), float(x)) for c, x in document["points"])
    return ModeCurve(
        points=points,
        slots=int(document.get("slots", points[-1][0])),
        accept_length=float(document.get("accept_length", 1.0)),
        kv_tokens=int(document["kv_tokens"]) if document.get("kv_tokens") else None,
    )


def from_document(document: Mapping[str, Any]) -> Curves:
    """Curves from a document `{"name", "source", "context_length", "modes": {MODE: ...}}`.

    A mode is `{"points": [[concurrency, tok/s], ...], "slots", "accept_length", "kv_tokens"}`; only its points are required.
    """
    unknown = set(document["modes"]) - set(MODES)
    if unknown:
        raise ValueError(f"unknown mode in curve: {', '.join(sorted(unknown))}")
    return Curves(
        name=str(document.get("name", "curve")),
        source=str(document.get("source", "")),
        modes={mode: _mode_from_document(value) for mode, value in document["modes"].items()},
        context_length=int(document.get("context_length", 131_072)),
    )


def from_csv(text: str, name: str) -> Curves:
    """Curves from rows `mode,concurrency,output_tokens_per_second[,slots,accept_length]`; the last two are read from a mode's first row."""
    documents: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        document = documents.setdefault(row["mode"], {"points": []})
        document["points"].append((row["concurrency"], row["output_tokens_per_second"]))
        for column in ("slots", "accept_length"):
            if row.get(column):
                document.setdefault(column, row[column])
    return from_document({"name": name, "modes": documents})


def load(curve: str) -> Curves:
    """Built-in curves by name, else a JSON or CSV file by path. OSError, KeyError or ValueError when it cannot be read."""
    if curve in BUILT_IN:
        return BUILT_IN[curve]
    path = Path(curve)
    if not path.is_file():
        raise ValueError(f"no curve {curve!r}: neither a file nor one of {', '.join(BUILT_IN)}")
    text = path.read_text()
    return from_csv(text, path.stem) if path.suffix == ".csv" else from_document(json.loads(text))
