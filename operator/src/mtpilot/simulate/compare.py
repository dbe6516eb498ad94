"""One fleet under one load, every policy, and the best that was possible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mtpilot.model.calibration import Calibration
from mtpilot.policy.fluid import FluidFleet

from . import optimum
from .catalogue import OPTIMUM, policy
from .driver import Run, Site, drive
from .loads import Load
from .score import Score, score
from .traces import SECONDS_PER_MINUTE, Floats

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs of several policies on one site and load, the optimum's last.

    reference: what a policy is measured by: request-minutes of the best schedule found, or the tokens of the best mix at each moment,
    had without flips, which no policy can exceed.
    """

    site: Site
    load: Load
    calibration: Calibration
    runs: tuple[Run, ...]
    scores: tuple[Score, ...]
    reference: float

    def ratio(self, found: Score) -> float | None:
        """Cost over the optimum's (from 1 up), or the share of the closed bound (up to 1). None: nothing was asked for."""
        if self.reference <= 0:
            return None
        return (found.tokens if found.cost is None else found.cost) / self.reference


def compare(
    site: Site,
    load: Load,
    calibration: Calibration,
    names: Sequence[str],
    *,
    guards: bool = True,
    explain: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Run each policy of `names`. The optimum is solved for open loads; a closed one has its bound.

    guards, explain: see `decided`. progress: called now and then with the minutes done since the last call.
    """
    runs = [drive(site, load, policy(name, calibration, guards=guards, explain=explain), progress) for name in names]
    if load.closed:
        reference = float(bound(site, load).sum() * SECONDS_PER_MINUTE)
    else:
        runs.append(followed(site, load, progress))
        reference = min(run.request_minutes for run in runs)
    return Comparison(
        site=site, load=load, calibration=calibration, runs=tuple(runs), scores=tuple(score(run) for run in runs), reference=reference
    )


def bound(site: Site, load: Load) -> Floats:
    """(minutes,) tok/s of the best mix at each moment of a closed load, as if flips took no time."""
    fleet = FluidFleet(site.curves, site.replicas, by_latency=False)
    levels, back = np.unique(load.values, return_inverse=True)
    best = [max(fleet.mix(batch).rate(level) for batch in range(site.replicas + 1)) for level in levels]
    return np.array(best)[back]


def followed(site: Site, load: Load, progress: Progress | None = None) -> Run:
    """The optimum as a run: its schedule, driven like any policy."""
    [best] = optimum.solve([site.curves], [load], replicas=site.replicas, flip_minutes=site.flip_minutes, progress=progress)
    return drive(site, load, optimum.Foreseen(best, OPTIMUM))
