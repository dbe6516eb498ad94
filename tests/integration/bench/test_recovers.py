"""The sweep gives back the curves that the simulated engines run by: every level, the crossover, and the table of a published report."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path
from statistics import median

import pytest

from mtpilot.evidence.files import open_package
from mtpilot.evidence.levels import tokens_per_second
from mtpilot.evidence.records import BatchRecord
from sglang_sim import curves
from tests.integration.bench.simulators import engines, mtpilot

_WITHIN = 0.05
_POINTS = Path(__file__).parents[3] / "e2e" / "data" / "points"
_SHORT = ("--sampling", "greedy", "--context", "200", "--look", "0.1", "--no-plots", "--json")


def _rates(package: Path) -> dict[tuple[str, str, int], float]:
    """Route, mode and level to the median of its repeats: one repeat that a busy machine held up does not count."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for record in open_package(package).records:
        if isinstance(record, BatchRecord):
            found.setdefault((record.route, record.mode, record.concurrency), []).append(tokens_per_second(record) or 0.0)
    assert all(len(rates) == 3 for rates in found.values())
    return {key: median(rates) for key, rates in found.items()}


def _crossing(pair: curves.Curves) -> float:
    """Where batch mode begins to serve more than mtp's slots ever do."""
    mtp, batch = pair.modes["mtp"], pair.modes["batch"]
    level = 1.0
    while batch.tokens_per_second(level) < mtp.tokens_per_second(min(level, mtp.slots)):
        level *= 1.001
    return level


def _document(points: Path) -> dict[str, object]:
    """The points of a profile as a curve of the simulator. The reports told no accept length for it."""
    modes: dict[str, dict[str, object]] = {}
    with points.open(newline="") as file:
        for row in csv.DictReader(file):
            mode = modes.setdefault(row["mode"], {"points": [], "slots": int(row["slots"])})
            found = mode["points"]
            assert isinstance(found, list)
            found.append([float(row["concurrency"]), float(row["output_tokens_per_second"])])
            if row["mode"] == "mtp":
                mode["accept_length"] = float(row["accept_length"] or 2.0)
    return {"name": points.stem, "modes": modes}


@pytest.mark.parametrize(
    ("points", "time_scale", "output_tokens", "levels"),
    [
        ("qwen3.5-122b.csv", 4.0, "90", {"mtp": [1, 2, 4, 8, 16, 24], "batch": [1, 2, 4, 8, 16, 32, 64, 68]}),
        ("qwen3.6-27b-320.csv", 5.0, "48", {"mtp": [1, 2, 4], "batch": [1, 2, 4, 8, 16]}),
    ],
)
async def test_a_sweep_recovers_the_points_and_the_crossover(tmp_path, points, time_scale, output_tokens, levels) -> None:
    document = _document(_POINTS / points)
    pair = curves.from_document(document)
    out = tmp_path / "run"
    slots = {mode: curve.slots for mode, curve in pair.modes.items()}
    async with engines(tmp_path, ("mtp", "batch"), curve=document, slots=slots, time_scale=time_scale) as found:
        ran = await mtpilot("bench", *(engine.url for engine in found), "--out", str(out), "--output-tokens", output_tokens, *_SHORT)
    assert ran.code == 0, ran.err
    rates = _rates(out)
    assert {mode: sorted(level for _, told, level in rates if told == mode) for mode in levels} == levels
    for (_, mode, level), rate in rates.items():
        assert rate == pytest.approx(pair.modes[mode].tokens_per_second(level) * time_scale, rel=_WITHIN), (mode, level)
    accepted = [row["accept_length"]["mean"] for row in ran.document["levels"] if row["mode"] == "mtp"]
    assert accepted == pytest.approx([pair.modes["mtp"].accept_length] * len(accepted), rel=0.03)

    checked = await mtpilot("evidence", "verify", str(out))
    assert checked.code == 0, checked.out
    told = ("--model", "hf://m/tiny", "--hardware-class", "x1", "--acceptance", "Synthetic", "--json")
    fitted = await mtpilot("profile", "fit", str(out), "-o", str(tmp_path / "profile.yaml"), *told)
    assert fitted.code == 0, fitted.err
    crossover = fitted.document["crossover"]
    assert crossover["above"] == "batch"
    assert float(crossover["low"]) <= _crossing(pair) <= float(crossover["high"])


_OMLX = {
    "greedy": {"plain": (35.98, 107.40), "mixed": (47.53, 69.34), "policy": (45.69, 108.14)},
    "sampled": {"plain": (35.51, 102.93), "mixed": (44.06, 64.68), "policy": (42.00, 103.79)},
}
"""oMLX pull request 2752: output tokens/s of one and of four requests by each route."""


@pytest.mark.parametrize("sampling", list(_OMLX))
async def test_the_omlx_matrix_is_reproduced(tmp_path, sampling) -> None:
    time_scale, out = 5.0, tmp_path / "run"
    targets = []
    async with contextlib.AsyncExitStack() as stack:
        for route, (alone, four) in _OMLX[sampling].items():
            mode = "batch" if route == "plain" else "mtp"
            folder = tmp_path / route
            folder.mkdir()
            curve = {"modes": {mode: {"points": [[1, alone], [4, four]], "slots": 4, "accept_length": 1.0 if mode == "batch" else 1.5}}}
            (engine,) = await stack.enter_async_context(engines(folder, (mode,), curve=curve, slots={mode: 4}, time_scale=time_scale))
            targets.append(f"{'mixed' if route == 'policy' else mode}@{route}={engine.url}")
        words = ("--concurrency", "1,cap", "--output-tokens", "56", *_SHORT[2:], "--sampling", sampling)
        ran = await mtpilot("bench", *targets, "--out", str(out), *words)
    assert ran.code == 0, ran.err
    rates = {(route, level): rate / time_scale for (route, _, level), rate in _rates(out).items()}
    expected = {(route, level): rate for route, pair in _OMLX[sampling].items() for level, rate in zip((1, 4), pair, strict=True)}
    assert rates == pytest.approx(expected, rel=_WITHIN)
