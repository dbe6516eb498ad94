"""Pictures of docs/decision.md: what the rule compares over the load, and how far each policy is from the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from e2e.bench_policy.cells import CLOSED, PARTS, all_pairs, tasks
from e2e.bench_policy.summary import part
from e2e.bench_policy.work import POLICIES, Cell
from mtpilot.drawing import AWAY, BATCH, MTP
from mtpilot.policy.fluid import FluidFleet
from mtpilot.policy.forecast import Forecast, Load, Terms
from mtpilot.policy.predictive import DEFAULT_SETTINGS
from mtpilot.simulate.loads import ASSUMED_OUTPUT_TOKENS
from mtpilot.simulate.plot import curves_of_ratios

SHOWN_PAIR, SHOWN_REPLICAS, SHOWN_FLIP_MINUTES = "qwen3.5-122b", 4, 4.0
_POINTS = 240
_BEYOND = 1.15  # of the largest capacity, or of the most slots


def ratios(cells: Sequence[Cell]) -> dict[str, Figure]:
    """By part: the share of its cells in which each policy is within a ratio of the optimum."""
    return {
        name: curves_of_ratios(_ratios(found), f"{name}: {len(found)} of {_all_of(name)} cells")
        for name in PARTS
        if name != CLOSED and (found := part(cells, name))
    }


def _ratios(cells: Sequence[Cell]) -> dict[str, Sequence[float]]:
    return {policy: [cell.ratio(policy) for cell in cells] for policy in POLICIES}


def _all_of(name: str) -> int:
    return sum(len(task.pairs) for task in tasks([name]))


def costs_over_load() -> Figure:
    """What staying and each move cost over the next hour, by the load: where two lines cross, the answer changes.

    An empty queue and a steady load; the price of the way back, which is learned, is not in it.
    """
    fleet = FluidFleet(all_pairs()[SHOWN_PAIR], SHOWN_REPLICAS, by_latency=False)
    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(f"{SHOWN_PAIR}, {SHOWN_REPLICAS} replicas, a flip of {SHOWN_FLIP_MINUTES:g} min: the cost of the next hour")
    for row, here in zip(figure.subplots(2, 2), (0, SHOWN_REPLICAS), strict=True):
        _opened(row[0], fleet, here)
        _closed(row[1], fleet, here)
    return figure


def _costs(fleet: FluidFleet, here: int, load: Load) -> Mapping[int, float]:
    step = here + 1 if here == 0 else here - 1
    terms = Terms(horizon_minutes=DEFAULT_SETTINGS.horizon_minutes, flip_minutes=SHOWN_FLIP_MINUTES)
    return Forecast(fleet, here, load, terms).costs({here, step, fleet.replicas - here})


def _lines(axes: Axes, fleet: FluidFleet, here: int, at: np.ndarray, loads: Sequence[Load]) -> None:
    found = [_costs(fleet, here, load) for load in loads]
    for target in found[0]:
        text = (
            "stay" if target == here else f"go over to {target} in batch" if here == 0 else f"go over to {fleet.replicas - target} in mtp"
        )
        colour = (MTP if target == 0 else BATCH if target == fleet.replicas else AWAY) if target != here else "black"
        axes.plot(at, [costs[target] for costs in found], color=colour, linewidth=1.4, label=text)
    axes.set_ylabel("request-minutes")
    axes.legend(fontsize=8)
    axes.grid(visible=True, alpha=0.3)


def _opened(axes: Axes, fleet: FluidFleet, here: int) -> None:
    most = max(fleet.mix(batch).capacity for batch in range(fleet.replicas + 1))
    at = np.linspace(0.02 * most, _BEYOND * most, _POINTS)
    loads = [_load(demand=float(demand), in_system=fleet.mix(here).in_flight(float(demand)), closed=0.0) for demand in at]
    _lines(axes, fleet, here, at, loads)
    axes.set_yscale("log")
    axes.set_title(f"open, from {'all mtp' if here == 0 else 'all batch'}", fontsize=10)
    axes.set_xlabel("tok/s asked for")


def _closed(axes: Axes, fleet: FluidFleet, here: int) -> None:
    most = max(fleet.mix(batch).slots for batch in range(fleet.replicas + 1))
    at = np.linspace(1.0, _BEYOND * most, _POINTS)
    loads = [_load(demand=fleet.mix(here).rate(float(clients)), in_system=float(clients), closed=1.0) for clients in at]
    _lines(axes, fleet, here, at, loads)
    axes.set_title(f"closed, from {'all mtp' if here == 0 else 'all batch'}", fontsize=10)
    axes.set_xlabel("clients that wait for their answers")


def _load(*, demand: float, in_system: float, closed: float) -> Load:
    return Load(demand=demand, queued=0.0, in_system=in_system, closed_weight=closed, output_tokens=ASSUMED_OUTPUT_TOKENS)
