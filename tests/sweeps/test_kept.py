"""A calibration's two Jobs against simulators: each pod is new, and what the ConfigMap keeps is all that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from mtpilot.adapters.kube.calibration import records_from_object
from mtpilot.api.inference_service import Mode
from mtpilot.bench.describing import parse_target
from mtpilot.bench.keeping import RECORDS_KEY, Shelf
from mtpilot.bench.planning import Levels, Settings
from mtpilot.bench.prompts import built_in
from mtpilot.bench.session import Options
from mtpilot.cli.bench_kept import Kept, _run
from mtpilot.cli.profile_making import Facts
from mtpilot.evidence.records import Sampling
from tests.unit.bench.test_keeping import Client
from tests.unit.sglang_sim.running import running

_FAST: dict[str, Any] = {"time_scale": 10.0, "min_event_seconds": 0.02, "tick_seconds": 0.004}
_SETTINGS = Settings(levels=Levels(concurrency=(1, 4)), samplings=(Sampling.SAMPLED,), contexts=(100,), output_tokens=60, repeats=2)
_KEPT = Kept(config_map="chat-calibration", facts=Facts(model="hf://m/tiny", hardware_class="rtx"))


def _shelf(client: Client) -> Shelf:
    return Shelf(client, namespace="team-a", name="chat-calibration")  # type: ignore[arg-type]


def _options(url: str) -> Options:
    return Options(
        targets=(parse_target(url),), settings=_SETTINGS, prompts=built_in(), plots=False, look_seconds=0.05, hardware_class="rtx"
    )


async def test_the_second_pod_goes_on_from_the_config_map_and_makes_the_profile(tmp_path: Path) -> None:
    client = Client()
    async with running("--enable-metrics --max-running-requests 8 --speculative-algorithm NEXTN", **_FAST) as engine:
        await _run(_options(f"mtp={engine.url}"), tmp_path / "first" / "run", _KEPT, _shelf(client))
    found = records_from_object(client.object)
    assert found.is_measured(Mode.MTP)
    assert (found.progress[Mode.MTP].done, found.profile, found.problem) == (6, None, None)
    async with running("--enable-metrics --max-running-requests 16", **_FAST) as engine:
        await _run(_options(f"batch={engine.url}"), tmp_path / "second" / "run", _KEPT, _shelf(client))
    found = records_from_object(client.object)
    assert found.is_measured(Mode.BATCH)
    assert found.profile is not None, found.problem
    assert {curve.mode: curve.slots for curve in found.profile.curves} == {Mode.MTP: 8, Mode.BATCH: 16}
    assert (found.profile.model.source, found.profile.hardware_class) == ("hf://m/tiny", "rtx")
    assert len(client.object["binaryData"][RECORDS_KEY]) < 100_000


async def test_a_leak_is_told_and_nothing_is_made_of_it(tmp_path: Path) -> None:
    client = Client()
    async with running("--enable-metrics --max-running-requests 8", **_FAST) as engine:
        await engine.post("/sim/faults", {"rows": "swap"})
        with pytest.raises(typer.Exit):
            await _run(_options(f"batch={engine.url}"), tmp_path / "run", _KEPT, _shelf(client))
    found = records_from_object(client.object)
    assert found.progress[Mode.BATCH].state == "Failed"
    assert "another request's marker" in found.progress[Mode.BATCH].message
    assert found.profile is None
