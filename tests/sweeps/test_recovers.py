"""The sweep gives back the curves that the simulated engines run by: every level, the crossover, and the table of a published report."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from mtpilot.bench.describing import parse_target
from mtpilot.bench.ledger import Ledger
from mtpilot.bench.planning import Levels, Settings
from mtpilot.bench.prompts import built_in
from mtpilot.bench.session import Finished, Options, measure
from mtpilot.evidence.files import read_files
from mtpilot.evidence.levels import tokens_per_second
from mtpilot.evidence.records import Sampling
from mtpilot.evidence.verify import verify
from sglang_sim import curves
from tests.sweeps.simulators import engines, mtpilot

_WITHIN = 0.05
_ATTEMPTS = 4
_POINTS = Path(__file__).parents[3] / "e2e" / "data" / "points"

Rates = dict[tuple[str, str, int], float]  # route, mode, level


async def _recovered(folder: Path, targets: list[str], settings: Settings, expected: Rates) -> Finished:
    """Run until the median of all repeats of each level is as expected: a level that a busy machine held up is measured again.

    Returns the first run, which has all levels.
    """
    rates: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    runs: list[Finished] = []
    off: Rates = {}
    for attempt in range(_ATTEMPTS):
        if off:
            levels = Levels(concurrency=tuple(sorted({level for _, _, level in off})), at_cap=False)
            settings = replace(settings, levels=levels)
        options = Options(targets=tuple(map(parse_target, targets)), settings=settings, prompts=built_in(), plots=False, look_seconds=0.1)
        runs.append(await measure(options, Ledger(folder / f"run{attempt}")))
        for record in runs[-1].batches:
            rates[record.route, record.mode, record.concurrency].append(tokens_per_second(record) or 0.0)
        assert rates.keys() == expected.keys()
        off = {key: median(rates[key]) for key in expected if abs(median(rates[key]) / expected[key] - 1) > _WITHIN}
        if not off:
            return runs[0]
    raise AssertionError(f"off by more than {_WITHIN:.0%}: {off}; expected {expected}")


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
        ("qwen3.5-122b.csv", 4.0, 90, {"mtp": [1, 2, 4, 8, 16, 24], "batch": [1, 2, 4, 8, 16, 32, 64, 68]}),
        ("qwen3.6-27b-320.csv", 5.0, 48, {"mtp": [1, 2, 4], "batch": [1, 2, 4, 8, 16]}),
    ],
)
async def test_a_sweep_recovers_the_points_and_the_crossover(tmp_path, points, time_scale, output_tokens, levels) -> None:
    document = _document(_POINTS / points)
    pair = curves.from_document(document)
    slots = {mode: curve.slots for mode, curve in pair.modes.items()}
    expected = {
        ("direct", mode, level): pair.modes[mode].tokens_per_second(level) * time_scale for mode, found in levels.items() for level in found
    }
    settings = Settings(samplings=(Sampling.GREEDY,), contexts=(200,), output_tokens=output_tokens)
    async with engines(tmp_path, ("mtp", "batch"), curve=document, slots=slots, time_scale=time_scale) as found:
        run = await _recovered(tmp_path, [engine.url for engine in found], settings, expected)
    accepted = [batch.accept_length for batch in run.batches if batch.mode == "mtp"]
    assert accepted == pytest.approx([pair.modes["mtp"].accept_length] * len(accepted), rel=0.03)
    assert not verify(read_files(tmp_path / "run0")).problems

    told = ("--model", "hf://m/tiny", "--hardware-class", "x1", "--acceptance", "Synthetic", "--json")
    fitted = await mtpilot("profile", "fit", str(tmp_path / "run0"), "-o", str(tmp_path / "profile.yaml"), *told)
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
    time_scale, table = 5.0, _OMLX[sampling]

    def mode(route: str) -> dict[str, object]:
        alone, four = table[route]
        return {"points": [[1, alone], [4, four]], "slots": 4, "accept_length": 1.0 if route == "plain" else 1.5}

    slots = {"mtp": 4, "batch": 4}
    old, new = ({"modes": {"batch": mode("plain"), "mtp": mode(route)}} for route in ("mixed", "policy"))
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    async with (
        engines(tmp_path / "old", ("batch", "mtp"), curve=old, slots=slots, time_scale=time_scale) as (plain, mixed),
        engines(tmp_path / "new", ("mtp",), curve=new, slots=slots, time_scale=time_scale) as (policy,),
    ):
        targets = {("plain", "batch"): plain.url, ("mixed", "mtp"): mixed.url, ("policy", "mixed"): policy.url}
        expected = {
            (route, told, level): rate * time_scale for route, told in targets for level, rate in zip((1, 4), table[route], strict=True)
        }
        levels = Levels(concurrency=(1,), at_cap=True)
        settings = Settings(levels=levels, samplings=(Sampling(sampling),), contexts=(200,), output_tokens=48)
        await _recovered(tmp_path, [f"{told}@{route}={url}" for (route, told), url in targets.items()], settings, expected)
