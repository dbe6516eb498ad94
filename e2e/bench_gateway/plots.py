"""The report's plots, as PNG bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from e2e.bench_gateway.omlx import TABLES
from e2e.bench_gateway.run import MTPILOT, Outcome
from e2e.bench_gateway.summary import CASES
from mtpilot.drawing import BATCH, OPERATOR, png

NAMES = {
    "mtpilot": "mtpilot",
    "haproxy": "HAProxy\nleast-conn",
    "direct": "direct\nround robin",
    "sglang_router_cache_aware": "sglang-router\ncache_aware",
    "sglang_router_power_of_two": "sglang-router\npower_of_two",
    "smg_least_load": "smg\nleast_load",
}
CASE_NAMES = {
    "alone": "one alone,\nboth replicas",
    "four": "four, the rule,\nboth replicas",
    "plain_four": "four, plain\nbatching, one replica",
    "mixed_four": "four, mixed\nroute, one replica",
}
OURS, OTHERS, REPORT = OPERATOR, "#8a9bb0", BATCH
_PANELS = (
    ("mean_latency_seconds", "mean latency, s (less is better)", "{:.2f}"),
    ("p99_latency_seconds", "p99 latency, s (less is better)", "{:.2f}"),
    ("output_tokens_per_second", "output tokens/s (more is better)", "{:,.0f}"),
    ("flip_errors", "errors in two flips (less is better)", "{:.0f}"),
    ("added_p99_ms", "added p99, ms (less is better)", "{:.2f}"),
    ("tiny_requests_per_second", "tiny requests/s per core (more is better)", "{:,.0f}"),
)


def comparison(summary: Mapping[str, Any]) -> bytes:
    """Bars of six figures for every contender."""
    rows = summary["rows"]
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    for axes, (key, title, form) in zip(figure.subplots(2, 3).flat, _PANELS, strict=True):
        values = [rows[name][key] or 0.0 for name in rows]
        bars = axes.barh([NAMES[name] for name in rows], values, color=[OURS if name == MTPILOT else OTHERS for name in rows])
        axes.bar_label(bars, labels=[form.format(value) for value in values], fontsize=8, padding=2)
        axes.set_title(title, fontsize=10)
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    return png(figure)


def latencies(outcome: Outcome) -> bytes:
    """The share of requests of the mixed load that were answered within a time."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots()
    for name, row in outcome.rows.items():
        values = sorted(row.mixed.latencies_seconds)
        shares = [(index + 1) / len(values) for index in range(len(values))]
        ours = name == MTPILOT
        axes.plot(values, shares, label=NAMES[name].replace("\n", " "), linewidth=2.2 if ours else 1.1, color=OURS if ours else None)
    axes.set_xlabel("seconds from the time a request was due to its last token")
    axes.set_ylabel("share of requests")
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="lower right")
    axes.set_title("Mixed load: latency of all requests")
    return png(figure)


def omlx(summary: Mapping[str, Any]) -> bytes:
    """The oMLX cases, measured here beside the report's own figures."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for axes, (name, figures) in zip(figure.subplots(1, len(summary["omlx"]), squeeze=False).flat, summary["omlx"].items(), strict=True):
        table = TABLES[name]
        reported = {"alone": table.mtp_alone, "plain_four": table.plain_four, "mixed_four": table.mixed_four}
        bars = axes.bar([CASE_NAMES[case] for case in CASES], [figures[case] for case in CASES], color=[OURS, OURS, OTHERS, OTHERS])
        axes.bar_label(bars, labels=[f"{figures[case]:.1f}" for case in CASES], fontsize=9)
        for position, case in enumerate(CASES):
            if case in reported:
                axes.hlines(reported[case], position - 0.4, position + 0.4, color=REPORT, linewidth=2)
        axes.set_title(f"{name}; line: the report's figure", fontsize=10)
        axes.set_ylabel("output tokens/s")
        axes.margins(y=0.15)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    return png(figure)
