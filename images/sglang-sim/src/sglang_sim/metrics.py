"""The metric families of SGLang 0.5.23, kept and written out in the text format.

Names, types, labels and buckets come from data/metrics.json, which condenses recordings of a real server. Written by hand
rather than with a client library, because a scrape must cost little beside the streams and label order must match.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_UNRECORDED: tuple[dict[str, Any], ...] = (
    {
        "name": "sglang:spec_verify_calls_total",
        "type": "counter",
        "help": "Number of speculative decoding verification calls.",
        "base": "tokenizer",
        "labels": ["is_streaming"],
    },
    {
        "name": "sglang:num_aborted_requests_total",
        "type": "counter",
        "help": "Number of requests aborted.",
        "base": "tokenizer",
    },
)
"""Families that a real server shows only after an event which the recordings do not have."""


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _braces(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{key}="{_escape(labels[key])}"' for key in sorted(labels))
    return "{" + inside + "}" if inside else ""


class Series:
    """One gauge's or counter's value under one label set."""

    __slots__ = ("head", "value")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.head = name + _braces(labels) + " "
        self.value = 0.0

    def lines(self) -> list[str]:
        return [self.head + _number(self.value)]


class Histogram:
    """Cumulative buckets, count and sum under one label set."""

    __slots__ = ("_bounds", "_count_head", "_counts", "_heads", "_sum_head", "total")

    def __init__(self, name: str, labels: Mapping[str, str], bounds: list[str]) -> None:
        self._bounds = [float(bound) for bound in bounds]
        self._heads = [f"{name}_bucket{_braces({**labels, 'le': bound})} " for bound in (*bounds, "+Inf")]
        self._counts = [0.0] * (len(bounds) + 1)
        self._sum_head, self._count_head = f"{name}_sum{_braces(labels)} ", f"{name}_count{_braces(labels)} "
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def lines(self) -> list[str]:
        out, running = [self._sum_head + _number(self.total)], 0.0
        for head, count in zip(self._heads, self._counts, strict=True):
            running += count
            out.append(head + _number(running))
        out.append(self._count_head + _number(running))
        return out


class Family:
    """One metric family; series appear when they are first touched."""

    __slots__ = ("_base", "_buckets", "_labels", "help", "kind", "name", "series")

    def __init__(self, document: Mapping[str, Any], base: Mapping[str, str]) -> None:
        self.name: str = document["name"]
        self.kind: str = document["type"]
        self.help: str = document["help"]
        self._labels: list[str] = document.get("labels", [])
        self._buckets: list[str] = document.get("buckets", [])
        self._base = base
        self.series: dict[tuple[str, ...], Series | Histogram] = {}

    def _touch(self, values: tuple[str, ...]) -> Series | Histogram:
        found = self.series.get(values)
        if found is None:
            labels = {**self._base, **dict(zip(self._labels, values, strict=True))}
            found = Histogram(self.name, labels, self._buckets) if self.kind == "histogram" else Series(self.name, labels)
            self.series[values] = found
        return found

    def set(self, value: float, *values: str) -> None:
        """Set a gauge, or a counter that is counted elsewhere; label values in the order of the family's own labels."""
        series = self._touch(values)
        if isinstance(series, Series):
            series.value = float(value)

    def add(self, amount: float, *values: str) -> None:
        """Raise a counter, or move a gauge."""
        series = self._touch(values)
        if isinstance(series, Series):
            series.value += amount

    def observe(self, value: float, *values: str, times: int = 1) -> None:
        """Put `times` observations of one value into a histogram."""
        series = self._touch(values)
        if isinstance(series, Histogram):
            series.observe(value, times)

    def value(self, *values: str) -> float:
        """A gauge's or counter's present value, 0 where it was never touched."""
        series = self.series.get(values)
        return series.value if isinstance(series, Series) else 0.0

    def touch(self, *values: str) -> None:
        """Let a series appear with 0."""
        self._touch(values)


class Registry:
    """All families of one server, in the recordings' order."""

    def __init__(self, *, model_name: str, extra_labels: Mapping[str, str], pid: int) -> None:
        tokenizer = {"model_name": model_name, "engine_type": "unified", **extra_labels}
        bases = {"none": {}, "tokenizer": tokenizer, "scheduler": {**tokenizer, "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}}
        document = json.loads(files("sglang_sim").joinpath("data/metrics.json").read_text())
        self.families: dict[str, Family] = {}
        for item in (*document["families"], *_UNRECORDED):
            family = Family(item, bases[item["base"]])
            self.families[family.name.removeprefix("sglang:")] = family
            for values in item.get("series", []):
                family.touch(*values)
            if item.get("idle") and not item.get("labels"):
                family.touch()
        for name in ("num_retracted_reqs", "num_paused_reqs"):
            self.families[name].touch(str(pid))
        self["fwd_occupancy"].set(math.nan)

    def __getitem__(self, name: str) -> Family:
        return self.families[name]

    def gauges(self) -> list[Family]:
        return [family for family in self.families.values() if family.kind == "gauge"]

    def exposition(self, *, nan: list[str], missing: list[str]) -> str:
        """The page of /metrics; gauges named in `nan` read NaN, those in `missing` are left out, "*" names them all."""
        out: list[str] = []
        for family in self.families.values():
            gauge = family.kind == "gauge"
            if not family.series or (gauge and _named(family.name, missing)):
                continue
            out += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            spoiled = gauge and _named(family.name, nan)
            for series in family.series.values():
                out += [series.head + "NaN"] if spoiled and isinstance(series, Series) else series.lines()
        return "\n".join(out) + "\n"


def _named(name: str, names: list[str]) -> bool:
    return "*" in names or name in names or name.removeprefix("sglang:") in names
