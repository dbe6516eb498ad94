"""What the bench must show, each with the line that says so when it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from e2e.bench_policy.cells import CLOSED, LAB, WIDE
from e2e.bench_policy.summary import ALMOST_OPTIMAL, almost_optimal, of_policy
from e2e.bench_policy.work import POLICIES, Cell
from mtpilot.simulate.catalogue import PREDICTIVE

MOST_SECONDS = 1200.0
MOST_PLAN_MS = 10.0
LAB_MOST = {"mean": 1.20, "p90": 1.45, "worst": 1.70}
CLOSED_LEAST = {"mean": 0.90, "worst": 0.75}


def failures(summary: Mapping[str, Any], cells: Sequence[Cell]) -> list[str]:
    """One plain sentence for each line that does not hold; lines of parts that were not run are not asked."""
    return [text for good, text in _lines(summary, cells) if not good]


def _lines(summary: Mapping[str, Any], cells: Sequence[Cell]) -> Iterator[tuple[bool, str]]:
    yield summary["seconds"] <= MOST_SECONDS, f"it took {summary['seconds']:.0f} s, more than {MOST_SECONDS:.0f} s"
    took = summary["plan_p99_ms"]
    if took is not None:
        yield took < MOST_PLAN_MS, f"the p99 of plan() is {took:.2f} ms, not below {MOST_PLAN_MS:g} ms"
    if summary[LAB]:
        yield from _lab(summary)
    if summary[WIDE]:
        yield from _wide(summary, cells)
    if summary[CLOSED]:
        yield from _closed(summary)
    above = [cell.key for cell in cells if cell.part != CLOSED and min(cell.values.values()) < cell.reference]
    yield not above, f"the optimum is above a policy in {len(above)} cells: {', '.join(above[:3])}"


def _lab(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    for figure, most in LAB_MOST.items():
        value = summary[LAB][PREDICTIVE][figure]
        yield value <= most, f"lab: predictive's {figure} is {value:.3f}, more than {most:.2f}"


def _closed(summary: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    found = summary[CLOSED][PREDICTIVE]
    for figure, least in CLOSED_LEAST.items():
        yield found[figure] >= least, f"closed: predictive's {figure} is {found[figure]:.3f}, less than {least:.2f}"
    static = summary["best_static"][CLOSED]["mean"]
    yield found["mean"] > static, f"closed: predictive's mean {found['mean']:.3f} is not above {static:.3f}, that of the better static"


def _wide(summary: Mapping[str, Any], cells: Sequence[Cell]) -> Iterator[tuple[bool, str]]:
    found = summary[WIDE][PREDICTIVE]
    static = summary["best_static"][WIDE]["mean"]
    yield found["mean"] < static, f"wide: predictive's mean {found['mean']:.3f} is not below {static:.3f}, that of the better static"
    for policy in POLICIES:
        for figure in ("p90", "worst") if policy != PREDICTIVE else ():
            other = summary[WIDE][policy][figure]
            yield found[figure] < other, f"wide: predictive's {figure} {found[figure]:.3f} is not below {policy}'s {other:.3f}"
    calm = of_policy(almost_optimal(cells), PREDICTIVE)
    if calm:
        text = f"wide: where the better static is within 1 % of the optimum, predictive's mean is {calm['mean']:.4f}, more than 1.01"
        yield calm["mean"] <= ALMOST_OPTIMAL, text
