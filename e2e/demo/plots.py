"""The report's plots, as PNG bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from e2e.demo import figures
from e2e.demo.summary import ALWAYS_BATCH, ALWAYS_MTP, AUTO, Outcome
from e2e.demo.timeline import Flip, Window
from e2e.load.schedule import Schedule
from mtpilot.drawing import AWAY, BATCH, MTP, OFFERED, OPERATOR, WARNING, png

_LOADING = "#e5d8f0"
COLOURS = {AUTO: OPERATOR, ALWAYS_MTP: MTP, ALWAYS_BATCH: BATCH}
NAMES = {AUTO: "auto", ALWAYS_MTP: "always mtp", ALWAYS_BATCH: "always batch"}


def _flip_spans(axes: Axes, flips: list[Flip], window: Window) -> None:
    for flip in flips:
        begin = max(0.0, flip.at - window.start)
        end = (flip.ended_at or window.end) - window.start
        colour = BATCH if flip.to_mode == "batch" else MTP
        axes.axvspan(begin, end, color=colour, alpha=0.12, linewidth=0)
        axes.axvline(begin, color=colour, linewidth=1.0, linestyle="--", alpha=0.8)


def _load_axes(axes: Axes, outcome: Outcome, schedule: Schedule, window: Window) -> None:
    parameters = outcome.parameters
    wanted = figures.offered(schedule)
    got = figures.delivered(outcome.results[AUTO].records, window.start)
    axes.plot(wanted.seconds, wanted.values, color=OFFERED, linewidth=1.2, label="asked for by the arrivals")
    axes.plot(got.seconds, got.values, color=COLOURS[AUTO], linewidth=1.6, label="received by the clients")
    axes.axhline(parameters.mtp_tokens_per_second, color=MTP, linestyle=":", label="all replicas in mtp, full")
    axes.axhline(parameters.batch_tokens_per_second, color=BATCH, linestyle=":", label="all replicas in batch, full")
    axes.set_ylabel("output tokens/s")
    axes.legend(loc="upper right", fontsize=8)


def _mix_axes(axes: Axes, outcome: Outcome, window: Window) -> None:
    mix = figures.mix(outcome.timeline, window)
    axes.stackplot(
        mix.seconds, mix.mtp, mix.batch, mix.draining, mix.loading,
        colors=[MTP, BATCH, AWAY, _LOADING], labels=["mtp", "batch", "draining", "loading"], step="post", alpha=0.85,
    )  # fmt: skip
    axes.set_ylabel("replicas")
    axes.set_ylim(0, outcome.parameters.replicas + 0.6)
    axes.fill_between([], [], facecolor="white", edgecolor="grey", linewidth=0.6, label="no pod")  # what is left below the replicas
    axes.legend(loc="upper right", fontsize=8, ncols=5)


def _in_flight_axes(axes: Axes, outcome: Outcome, window: Window) -> None:
    all_open, waiting = figures.in_flight(outcome.results[AUTO].records, window.start)
    queue = figures.gateway_queue(outcome.timeline, window)
    axes.plot(all_open.seconds, all_open.values, color=COLOURS[AUTO], label="in flight")
    axes.fill_between(waiting.seconds, waiting.values, color=WARNING, alpha=0.35, linewidth=0, label="waiting for the first token")
    axes.plot(queue.seconds, queue.values, color=WARNING, linewidth=1.0, linestyle="-.", label="queued (Prometheus)")
    axes.set_ylabel("requests")
    axes.set_xlabel("seconds; shaded: a flip from its decision to Ready, in the colour of the new mode")
    axes.legend(loc="upper right", fontsize=8)


def auto_run(outcome: Outcome, schedule: Schedule) -> bytes:
    """Load and throughput, mix, and requests in flight of the auto run, above one another on one time axis."""
    window = outcome.timeline.window(AUTO)
    if window is None:
        raise ValueError("the auto run is not in the timeline")
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2, 2.4])
    _load_axes(top, outcome, schedule, window)
    _mix_axes(middle, outcome, window)
    _in_flight_axes(bottom, outcome, window)
    flips = [flip for flip in outcome.timeline.flips.values() if flip.service == window.service]
    for axes in (top, bottom):
        _flip_spans(axes, flips, window)
        axes.grid(alpha=0.25)
        axes.set_ylim(bottom=0)
    top.set_xlim(0, window.end - window.start)
    top.set_title("Auto: the mix follows the load")
    return png(figure)


def throughput(outcome: Outcome) -> bytes:
    """Tokens/s and requests in flight of all policies on the same load."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for name, result in outcome.results.items():
        window = outcome.timeline.window(name)
        if window is None:
            continue
        got = figures.delivered(result.records, window.start, smooth_bins=5)
        all_open, _ = figures.in_flight(result.records, window.start)
        top.plot(got.seconds, got.values, color=COLOURS[name], label=NAMES[name])
        bottom.plot(all_open.seconds, all_open.values, color=COLOURS[name], label=NAMES[name])
    top.set_ylabel("output tokens/s")
    bottom.set_ylabel("requests in flight")
    bottom.set_xlabel("seconds")
    for axes in (top, bottom):
        axes.grid(alpha=0.25)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    top.set_title("The same load under each policy")
    return png(figure)


def comparison(summary: Mapping[str, Any]) -> bytes:
    """Bars of the three figures for each policy."""
    policies = summary["policies"]
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    panels = (
        ("output_tokens_per_second", "output tokens/s (more is better)", "{:,.0f}"),
        ("mean_latency_seconds", "mean latency, s (less is better)", "{:.2f}"),
        ("p99_latency_seconds", "p99 latency, s (less is better)", "{:.2f}"),
    )
    for axes, (key, title, form) in zip(figure.subplots(1, 3), panels, strict=True):
        values = [policies[name][key] or 0.0 for name in policies]
        bars = axes.bar([NAMES[name] for name in policies], values, color=[COLOURS[name] for name in policies])
        axes.bar_label(bars, labels=[form.format(value) for value in values], fontsize=9)
        axes.set_title(title, fontsize=10)
        axes.margins(y=0.18)
        axes.spines[["top", "right"]].set_visible(False)
    return png(figure)
