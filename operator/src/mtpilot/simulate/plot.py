"""Plots of a comparison: what was asked for and served, the mix, who waited, and where a policy lost against the optimum.

Imports matplotlib (the extra `analysis`), so it is imported only where a plot is asked for.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import SymmetricalLogLocator

from mtpilot.drawing import AWAY, BATCH, MTP, OFFERED, OPERATOR, WARNING

from .catalogue import OPTIMUM, PREDICTIVE
from .compare import Comparison, bound
from .driver import Run
from .traces import Floats

_COLOURS = {
    "always_mtp": MTP,
    "always_batch": BATCH,
    "adaptive_0": "#8fb8de",
    "adaptive_7": "#6a9fd1",
    "adaptive_20": "#4a86c2",
    "threshold_running": "#a05195",
    "threshold_demand": WARNING,
    "uncalibrated": "#8c6d46",
    PREDICTIVE: OPERATOR,
    OPTIMUM: "#111111",
}


def comparison(found: Comparison, shown: str | None = None) -> Figure:
    """Load, mix, queue and the cumulative difference to the optimum, above one another on one time axis.

    shown: the policy whose mix is drawn; default: predictive where it ran, else the first one.
    """
    names = [run.policy for run in found.runs]
    main = found.runs[names.index(shown or (PREDICTIVE if PREDICTIVE in names else names[0]))]
    figure = Figure(figsize=(11, 10), layout="constrained")
    load, mix, queue, difference = figure.subplots(4, 1, sharex=True, height_ratios=(3, 2, 2, 3))
    figure.suptitle(f"{found.calibration.profile}: {found.load.name}, {found.site.replicas} replicas, flip {found.site.flip_minutes} min")
    _load(load, found, main)
    _mix(mix, main)
    _queues(queue, found)
    _difference(difference, found)
    difference.set_xlabel("hours")
    return figure


def _hours(run: Run) -> Floats:
    return np.arange(run.load.minutes) / 60.0


def _load(axes: Axes, found: Comparison, run: Run) -> None:
    site = found.site
    hours = _hours(run)
    axes.plot(hours, run.served, color=_COLOURS[PREDICTIVE], linewidth=1.0, label=f"served ({run.policy})")
    if found.load.closed:
        axes.plot(hours, bound(site, found.load), color=OFFERED, linewidth=0.8, label="the best mix at each moment")
        clients = axes.twinx()
        clients.step(hours, found.load.values, color=AWAY, linewidth=0.8, where="post")
        clients.set_ylabel("clients")
    else:
        axes.plot(hours, found.load.values, color=OFFERED, linewidth=0.6, alpha=0.7, label="asked for")
    for curve, colour, name in ((site.curves.mtp, MTP, "all mtp"), (site.curves.batch, BATCH, "all batch")):
        axes.axhline(site.replicas * curve.tokens_per_second[-1], color=colour, linestyle=":", label=f"{name}, full")
    axes.set_ylabel("output tok/s")
    axes.legend(loc="upper left", fontsize=8, ncols=2)


def _mix(axes: Axes, run: Run) -> None:
    away = run.away.astype(int)
    batch = run.batch.astype(int)
    total = run.site.replicas
    into_batch = np.array([_going_to_batch(run, minute) for minute in range(run.load.minutes)], dtype=int)
    batch_serving = batch - away * (1 - into_batch)
    mtp_serving = total - batch - away * into_batch
    layers = (mtp_serving, batch_serving, away)
    names = ["mtp", "batch", "on its way"]
    axes.stackplot(_hours(run), *layers, colors=[MTP, BATCH, AWAY], labels=names, step="post", alpha=0.85)
    axes.set_ylabel(f"replicas ({run.policy})")
    axes.set_ylim(0, total * 1.25)
    axes.legend(loc="upper right", fontsize=8, ncols=3)


def _going_to_batch(run: Run, minute: int) -> bool:
    last = [move for move in run.moves if move.minute < minute]
    return bool(last) and last[-1].to == "batch"


def _queues(axes: Axes, found: Comparison) -> None:
    for run in found.runs:
        axes.plot(_hours(run), run.queued, color=_COLOURS[run.policy], linewidth=0.9, label=run.policy)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(0, None)
    axes.set_ylabel("requests waiting")


def _difference(axes: Axes, found: Comparison) -> None:
    best = found.runs[-1]
    for run in found.runs:
        if found.load.closed:
            lost = np.cumsum(bound(found.site, found.load) - run.served) * 60.0 / 1e6
        elif run is best:
            continue
        else:
            lost = np.cumsum(run.in_system - best.in_system)
        axes.plot(_hours(run), lost, color=_COLOURS[run.policy], linewidth=1.1, label=run.policy)
    if found.load.closed:
        axes.set_ylabel("million tokens behind the bound")
    else:
        axes.set_yscale("symlog", linthresh=1000)
        axes.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1000))
        axes.set_ylabel("request-minutes more\nthan the optimum, summed")
    axes.legend(loc="upper left", fontsize=8, ncols=3)


def curves_of_ratios(ratios: dict[str, Sequence[float]], title: str) -> Figure:
    """Share of the cells in which each policy is within a ratio of the optimum."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for name, values in ratios.items():
        ordered = np.sort(np.asarray(values, dtype=float))
        axes.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), color=_COLOURS.get(name), label=name, where="post")
    axes.set_xscale("log")
    axes.set_xlabel("cost over the optimum")
    axes.set_ylabel("share of the cells")
    axes.set_title(title)
    axes.legend(loc="lower right", fontsize=8)
    axes.grid(visible=True, alpha=0.3)
    return figure
