"""The plots of a package: tokens/s, tokens/s of one request and time to first token against the requests in flight.

Imports matplotlib (the extra `analysis`), so it is imported only where a package is written. With one release of matplotlib the same
records are the same bytes: neither a user's settings nor a name or time gets into a drawing.
"""

import io
from collections import defaultdict
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mtpilot.api.inference_service import Mode
from mtpilot.drawing import MODE_COLOURS

from .levels import Level, known, levels_of, rates_of
from .records import BatchRecord, Loop
from .statistics import mean

Levels = dict[Level, list[BatchRecord]]
Panel = tuple[str, str, str, int]  # route, endpoint, sampling, context

_DOTS_PER_INCH = 90
_MOST_COLUMNS = 3
_MOST_PANELS = 12
_OTHER_MODE = "#777777"
_FIGURES: tuple[tuple[str, str, Callable[[Sequence[BatchRecord]], list[float]]], ...] = (
    ("throughput", "output tokens/s", rates_of),
    ("per-request", "output tokens/s of one request", lambda found: known(one.figures.per_request_tokens_per_second for one in found)),
    ("ttft", "time to first token, 99th percentile, s", lambda found: known(one.figures.ttft_p99_seconds for one in found)),
)


def plots_of(batches: Sequence[BatchRecord]) -> dict[str, bytes]:
    """PNG files by their names in the package; none where no level of a closed loop was measured."""
    panels: dict[Panel, Levels] = defaultdict(dict)
    for level, found in levels_of(batches).items():
        if level.loop is Loop.CLOSED:
            panels[level.route, level.endpoint, level.sampling.value, level.context_bucket][level] = found
    if not panels:
        return {}
    shown = dict(list(panels.items())[:_MOST_PANELS])
    with mpl.rc_context(mpl.rcParamsDefault):
        return {f"plots/{name}.png": _drawn(shown, title, values) for name, title, values in _FIGURES}


def _drawn(panels: dict[Panel, Levels], title: str, values: Callable[[Sequence[BatchRecord]], list[float]]) -> bytes:
    columns = min(len(panels), _MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(1.0 + 4.6 * columns, 0.6 + 3.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for panel, (key, levels) in zip(axes, panels.items(), strict=False):
        _panel(panel, key, levels, values)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    axes[0].set_ylabel(title)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return target.getvalue()


def _panel(axes: Axes, key: Panel, levels: Levels, values: Callable[[Sequence[BatchRecord]], list[float]]) -> None:
    for mode in sorted({level.mode for level in levels}):
        points = [(level.concurrency, values(found)) for level, found in levels.items() if level.mode == mode]
        points = [(concurrency, found) for concurrency, found in points if found]
        if not points:
            continue
        colour = MODE_COLOURS.get(Mode(mode), _OTHER_MODE) if mode in tuple(Mode) else _OTHER_MODE
        middles = [mean(found) or 0.0 for _, found in points]
        below = [max(middle - min(found), 0.0) for middle, (_, found) in zip(middles, points, strict=True)]
        above = [max(max(found) - middle, 0.0) for middle, (_, found) in zip(middles, points, strict=True)]
        axes.errorbar(
            [concurrency for concurrency, _ in points],
            middles,
            yerr=[below, above],
            color=colour,
            marker="o",
            markersize=4,
            capsize=3,
            label=mode,
        )
    axes.set_title(f"{key[1]} by {key[0]}, {key[2]}, {key[3]} tokens", fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("requests in flight")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, frameon=False)
