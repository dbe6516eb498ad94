"""The plot of a profile: points, curves with their 90 % band, slots and crossover, one panel for each context."""

from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.curves.conclusion import HIGH, Conclusion
from mtpilot.curves.curve import ThroughputCurve
from mtpilot.curves.of_profile import conclusion_of, context_buckets, curve_pair, errors_of, fit_in_force
from mtpilot.curves.report import fit_words
from mtpilot.drawing import MODE_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_QUIET = "#555555"
_MOST_COLUMNS = 3


def draw(spec: ThroughputProfileSpec, path: Path, *, title: str) -> None:
    """Write the plot; the file's ending is its format.

    Raises:
        OSError, ValueError: the file cannot be written, or the format is not known.
        InvalidCurve: no context has curves of both modes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    contexts = context_buckets(spec) or (curve_pair(spec, 1)[1],)
    columns = min(len(contexts), _MOST_COLUMNS)
    rows = -(-len(contexts) // columns)
    figure = Figure(figsize=(1.2 + 5.2 * columns, 0.9 + 3.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axes, context in zip(panels, contexts, strict=False):
        _panel(axes, spec, context, alone=len(contexts) == 1)
    for axes in panels[len(contexts) :]:
        axes.set_visible(False)
    figure.suptitle(f"{title}\n{fit_words(spec)}", fontsize=10)
    figure.savefig(path, dpi=90)


def _panel(axes: "Axes", spec: ThroughputProfileSpec, context_tokens: int, *, alone: bool) -> None:
    pair, _ = curve_pair(spec, context_tokens)
    conclusion = conclusion_of(spec, pair)
    errors = dict(zip((Mode.MTP, Mode.BATCH), errors_of(fit_in_force(spec)), strict=True))
    most = 1.15 * max(pair.mtp.slots, pair.batch.slots)
    for mode in (Mode.BATCH, Mode.MTP):
        _curve(axes, mode, pair.of(mode), errors[mode], most)
        _points(axes, spec, mode, context_tokens)
    _crossover(axes, conclusion, pair.of(conclusion.above) if conclusion.above else None)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_plain)
    axes.set_xlim(0.9, most)
    axes.set_xlabel("requests in flight at one replica")
    axes.set_ylabel("output tokens/s")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(conclusion.verdict if alone else f"{context_tokens} tokens of context: {conclusion.verdict}", fontsize=10)


def _curve(axes: "Axes", mode: Mode, curve: ThroughputCurve, error: float, most: float) -> None:
    """The curve up to its slots, flat and dashed beyond, and its band."""
    wide = NormalDist().inv_cdf(HIGH) * error
    levels = [level for level in curve.concurrency if level >= 1]
    rates = [curve.rate(level) for level in levels]
    axes.fill_between(
        levels, [r * (1 - wide) for r in rates], [r * (1 + wide) for r in rates], color=MODE_COLOURS[mode], alpha=0.18, linewidth=0
    )
    axes.plot(levels, rates, color=MODE_COLOURS[mode], linewidth=1.8, label=f"{mode}, {curve.slots:g} slots")
    axes.plot([levels[-1], most], [rates[-1]] * 2, color=MODE_COLOURS[mode], linewidth=1.2, linestyle=(0, (4, 3)))


def _points(axes: "Axes", spec: ThroughputProfileSpec, mode: Mode, context_tokens: int) -> None:
    found = next(curve for curve in spec.curves if curve.mode is mode and curve.context_tokens == context_tokens)
    levels = [min(point.concurrency, found.slots) for point in found.points]
    rates = [float(point.output_tokens_per_second) for point in found.points]
    axes.plot(levels, rates, "o", color=MODE_COLOURS[mode], markersize=5, markeredgecolor="white", markeredgewidth=0.8)


def _crossover(axes: "Axes", conclusion: Conclusion, above: ThroughputCurve | None) -> None:
    if conclusion.crossover is None or above is None:
        return
    if conclusion.low is not None and conclusion.high is not None:
        axes.axvspan(conclusion.low, conclusion.high, color=_QUIET, alpha=0.12, linewidth=0)
    axes.axvline(conclusion.crossover, color=_QUIET, linewidth=1.0, linestyle=":")
    interval = "" if conclusion.low is None else f"\n{conclusion.low:.3g} to {conclusion.high:.3g}"
    axes.annotate(
        f"{conclusion.crossover:.3g}{interval}\n{conclusion.bound}",
        xy=(conclusion.crossover, 0.04),
        xycoords=("data", "axes fraction"),
        xytext=(-4, 0),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8,
        color=_QUIET,
    )


def _plain(value: float, _position: Any) -> str:
    return f"{value:g}"
