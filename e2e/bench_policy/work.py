"""Replay one task: every policy and the optimum, on each of its pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from e2e.bench_policy.cells import CLOSED, WIDE, Task, all_pairs, before_of, half_of, load_of
from mtpilot.api.throughput_profile import Verdict
from mtpilot.model.calibration import Calibration
from mtpilot.simulate import catalogue, optimum
from mtpilot.simulate.compare import bound
from mtpilot.simulate.driver import Site, drive
from mtpilot.simulate.loads import Load
from mtpilot.simulate.traces import SECONDS_PER_MINUTE

POLICIES = (
    "always_mtp",
    "always_batch",
    "adaptive_0",
    "adaptive_7",
    "adaptive_20",
    "threshold_running",
    "threshold_demand",
    "predictive",
)
UNCALIBRATED = "uncalibrated"  # in the report beside the others, where there is time for it
_MOVING = ("threshold_running", "threshold_demand", "predictive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fleet under one load.

    values: by policy, request-minutes (open) or tokens (closed). flips: by policy. solved: request-minutes of the optimum's own schedule.
    reference: what values are divided by: the least of `solved` and of all policies, or the closed bound.
    """

    key: str
    part: str
    half: str
    pair: str
    load: str
    replicas: int
    flip_minutes: int
    share: float
    minutes: int
    values: dict[str, float]
    flips: dict[str, int]
    solved: float | None
    reference: float

    def ratio(self, policy: str) -> float:
        """Cost over the optimum's, from 1 up; closed: share of the bound, up to 1."""
        return self.values[policy] / self.reference

    @property
    def best_static(self) -> float:
        """Ratio of the better of the two static modes, as known afterwards."""
        ratios = [self.ratio(policy) for policy in catalogue.STATICS]
        return max(ratios) if self.part == CLOSED else min(ratios)


def cell_minutes(task: Task) -> int:
    """How much work a task is."""
    return len(task.pairs) * load_of(task, task.pairs[0]).minutes


def replay(task: Task) -> list[Cell]:
    """Every cell of the task, in the order of its pairs."""
    return (_closed if task.part == CLOSED else _open)(task)


def _sites(task: Task) -> tuple[list[Site], list[Load], list[Calibration]]:
    pairs = [all_pairs()[name] for name in task.pairs]
    loads = [load_of(task, name) for name in task.pairs]
    sites = [
        Site(curves=pair, replicas=task.replicas, flip_minutes=task.flip_minutes, output_tokens=load.output_tokens)
        for pair, load in zip(pairs, loads, strict=True)
    ]
    return sites, loads, [catalogue.calibration(name, pair) for name, pair in zip(task.pairs, pairs, strict=True)]


def _cell(task: Task, pair: str, load: Load, **found: Any) -> Cell:
    key = task.key(pair)
    return Cell(
        key=key,
        part=task.part,
        half=half_of(key),
        pair=pair,
        load=task.load,
        replicas=task.replicas,
        flip_minutes=task.flip_minutes,
        share=task.share,
        minutes=load.minutes,
        **found,
    )


def _open(task: Task) -> list[Cell]:
    """A fleet begins in mtp, and a profile whose verdict is MtpOnly keeps it there: of the many such cells predictive is not driven."""
    sites, loads, calibrations = _sites(task)
    solved = optimum.solve([site.curves for site in sites], loads, replicas=task.replicas, flip_minutes=task.flip_minutes)
    fixed = _fixed(task, sites, loads, calibrations)
    moving = (*_MOVING, *((UNCALIBRATED,) if task.part != WIDE else ()))
    cells = []
    for i, pair in enumerate(task.pairs):
        at_home = task.part == WIDE and calibrations[i].verdict is Verdict.MTP_ONLY
        before = before_of(task, pair)
        runs = {
            name: drive(sites[i], loads[i], catalogue.policy(name, calibrations[i]), before=before)
            for name in moving
            if not (at_home and name == catalogue.PREDICTIVE)
        }
        values = {name: costs[i] for name, costs in fixed.items()} | {name: run.request_minutes for name, run in runs.items()}
        flips = dict.fromkeys((*fixed, *moving), 0) | {name: run.flips for name, run in runs.items()}
        values.setdefault(catalogue.PREDICTIVE, values["always_mtp"])
        reference = min(solved[i].cost, *values.values())
        cells.append(_cell(task, pair, loads[i], values=values, flips=flips, solved=solved[i].cost, reference=reference))
    return cells


def _fixed(task: Task, sites: Sequence[Site], loads: Sequence[Load], calibrations: Sequence[Calibration]) -> dict[str, list[float]]:
    """Request-minutes of the policies that never move, all pairs at once; the same numbers as driving them."""
    found = {}
    for name in POLICIES:
        if name in _MOVING:
            continue
        policies = [catalogue.policy(name, calibration) for calibration in calibrations]
        curves = [policy.curves(site.curves) for policy, site in zip(policies, sites, strict=True)]
        batch = policies[0].begin(sites[0]).batch
        costs, _ = optimum.fixed(curves, loads, [(batch, task.replicas - batch)])
        found[name] = costs[:, 0].tolist()
    return found


def _closed(task: Task) -> list[Cell]:
    sites, loads, calibrations = _sites(task)
    cells = []
    for site, load, calibration, pair in zip(sites, loads, calibrations, task.pairs, strict=True):
        runs = {name: drive(site, load, catalogue.policy(name, calibration)) for name in (*POLICIES, UNCALIBRATED)}
        cells.append(
            _cell(
                task,
                pair,
                load,
                values={name: run.tokens for name, run in runs.items()},
                flips={name: run.flips for name, run in runs.items()},
                solved=None,
                reference=float(bound(site, load).sum() * SECONDS_PER_MINUTE),
            )
        )
    return cells
