"""Figures of all cells: `summary.json`, and what a reader of the report wants beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from e2e.bench_policy.cells import CLOSED, HALVES, LAB, PARTS, WIDE
from e2e.bench_policy.work import POLICIES, UNCALIBRATED, Cell
from mtpilot.simulate.catalogue import PREDICTIVE

ALMOST_OPTIMAL = 1.01  # where the better static is within this of the optimum, nothing needs to move


def part(cells: Iterable[Cell], name: str) -> list[Cell]:
    return [cell for cell in cells if cell.part == name]


def figures(cells: Sequence[Cell], ratio: Callable[[Cell], float]) -> dict[str, float]:
    """mean, p90 and worst of a ratio; of closed cells mean and worst, where more is better. Empty without cells."""
    if not cells:
        return {}
    values = [ratio(cell) for cell in cells]
    if cells[0].part == CLOSED:
        return {"mean": _round(np.mean(values)), "worst": _round(min(values))}
    return {"mean": _round(np.mean(values)), "p90": _round(np.percentile(values, 90)), "worst": _round(max(values))}


def _round(value: Any) -> float:
    return round(float(value), 4)


def of_policy(cells: Sequence[Cell], policy: str) -> dict[str, float]:
    return figures(cells, lambda cell: cell.ratio(policy))


def of_best_static(cells: Sequence[Cell]) -> dict[str, float]:
    return figures(cells, lambda cell: cell.best_static)


def summarise(cells: Sequence[Cell], seconds: float, plan_p99_ms: float | None) -> dict[str, Any]:
    """`summary.json`. plan_p99_ms: see `plan_time`."""
    made: dict[str, Any] = {"cells": len(cells), "seconds": round(seconds, 1)}
    for name in PARTS:
        inside = part(cells, name)
        made[name] = {policy: of_policy(inside, policy) for policy in POLICIES} if inside else {}
    wide = part(cells, WIDE)
    for policy in POLICIES if wide else ():
        made[WIDE][policy]["flips_mean"] = _round(np.mean([cell.flips[policy] for cell in wide]))
    made["best_static"] = {name: of_best_static(part(cells, name)) for name in PARTS}
    made["plan_p99_ms"] = None if plan_p99_ms is None else round(plan_p99_ms, 2)
    return made


def almost_optimal(cells: Iterable[Cell]) -> list[Cell]:
    """Wide cells where the better static mode is as good as optimal."""
    return [cell for cell in part(cells, WIDE) if cell.best_static <= ALMOST_OPTIMAL]


def details(cells: Sequence[Cell]) -> dict[str, Any]:
    """For the report: halves, factors, where the optimum came from, and the cells that went worst."""
    calm = almost_optimal(cells)
    return {
        "halves": {name: {half: _lines([cell for cell in part(cells, name) if cell.half == half]) for half in HALVES} for name in PARTS},
        "factors": {
            name: {factor: _by(part(cells, name), factor) for factor in ("replicas", "flip_minutes", "share", "load", "pair")}
            for name in (LAB, WIDE)
        },
        "almost_optimal": {"cells": len(calm), PREDICTIVE: of_policy(calm, PREDICTIVE)},
        "reference": {name: _references(part(cells, name)) for name in (LAB, WIDE)},
        UNCALIBRATED: {name: of_policy(part(cells, name), UNCALIBRATED) for name in (LAB, CLOSED)},
        "worst": {name: [_told(cell) for cell in _worst(part(cells, name))] for name in PARTS},
    }


def _lines(cells: Sequence[Cell]) -> dict[str, Any]:
    lines: dict[str, Any] = {policy: of_policy(cells, policy) for policy in POLICIES}
    return {"cells": len(cells), "best_static": of_best_static(cells), **lines} if cells else {"cells": 0}


def _by(cells: Sequence[Cell], factor: str) -> dict[str, Any]:
    values = sorted({getattr(cell, factor) for cell in cells})
    groups = {str(value): [cell for cell in cells if getattr(cell, factor) == value] for value in values}
    return {
        value: {
            "cells": len(inside),
            "best_static": of_best_static(inside),
            PREDICTIVE: of_policy(inside, PREDICTIVE) | {"flips_mean": _round(np.mean([cell.flips[PREDICTIVE] for cell in inside]))},
        }
        for value, inside in groups.items()
    }


def _references(cells: Sequence[Cell]) -> dict[str, Any]:
    """Who beat the schedule that the dynamic program found, in how many cells and by how much at most.

    Adaptive speculation may: its replicas change mode at no time, which the two modes of the program cannot.
    """
    found: dict[str, Any] = {"cells": len(cells)}
    for policy in POLICIES:
        ahead = [cell.solved / cell.values[policy] for cell in cells if cell.solved and cell.values[policy] < cell.solved * (1 - 1e-9)]
        if ahead:
            found[policy] = {"cells": len(ahead), "most": _round(max(ahead))}
    return found


def _worst(cells: Sequence[Cell], most: int = 12) -> list[Cell]:
    return sorted(cells, key=lambda cell: cell.ratio(PREDICTIVE) * (1 if cell.part == CLOSED else -1))[:most]


def _told(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        "best_static": _round(cell.best_static),
        **{policy: _round(cell.ratio(policy)) for policy in (*POLICIES, UNCALIBRATED) if policy in cell.values},
        "flips": cell.flips[PREDICTIVE],
    }
