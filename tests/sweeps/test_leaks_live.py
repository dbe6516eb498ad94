"""Engines that mix rows up, lose their ends, or stop, against a run over real sockets."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mtpilot.bench.answers import Endpoint
from mtpilot.bench.describing import parse_target
from mtpilot.bench.engine import BenchError
from mtpilot.bench.ledger import Ledger
from mtpilot.bench.planning import Levels, Settings
from mtpilot.bench.prompts import built_in
from mtpilot.bench.session import Finished, Options, measure
from mtpilot.evidence.files import open_package, read_files
from mtpilot.evidence.records import BatchRecord, Loop, Sampling
from mtpilot.evidence.verify import verify
from tests.unit.sglang_sim.running import running

_FAST: dict[str, Any] = {"time_scale": 10.0, "min_event_seconds": 0.02, "tick_seconds": 0.004}
_SETTINGS = Settings(
    levels=Levels(concurrency=(8,), at_cap=False, above_cap=True),
    samplings=(Sampling.GREEDY,),
    contexts=(100,),
    output_tokens=60,
    repeats=1,
)


def _options(*urls: str, settings: Settings = _SETTINGS) -> Options:
    return Options(targets=tuple(parse_target(url) for url in urls), settings=settings, prompts=built_in(), plots=False, look_seconds=0.05)


async def _run(out: Path, *urls: str, settings: Settings = _SETTINGS, go_on: bool = False) -> Finished:
    return await measure(_options(*urls, settings=settings), Ledger(out), go_on=go_on)


async def test_each_fault_of_an_engine_is_found_and_a_sound_one_passes(tmp_path) -> None:
    async with running(**_FAST) as engine:
        sound = await _run(tmp_path / "sound", engine.url)
        found = {}
        for fault in ("swap", "merge"):
            await engine.post("/sim/faults", {"rows": fault})
            found[fault] = await _run(tmp_path / fault, engine.url)
        await engine.post("/sim/faults", {"rows": "truncate"})
        with pytest.raises(BenchError, match="cut short"):
            await _run(tmp_path / "truncate", engine.url)
    assert (sound.leaked, sound.failed, sum(batch.figures.markers_missing for batch in sound.batches)) == (0, 0, 0)
    for one in found.values():
        assert one.leaked > 0
        assert any("do not serve" in warning for warning in one.environment.warnings)


async def test_every_endpoint_open_loops_and_an_engine_without_counters(tmp_path) -> None:
    settings = replace(
        _SETTINGS,
        levels=Levels(concurrency=(2,), at_cap=False, above_cap=True),
        endpoints=tuple(Endpoint),
        rates=(20.0,),
        duration_seconds=0.5,
    )
    async with running("--speculative-algorithm NEXTN", **_FAST) as engine:
        found = await _run(tmp_path / "run", engine.url, settings=settings)
    assert (found.leaked, found.failed) == (0, 0)
    assert {(batch.endpoint, batch.loop) for batch in found.batches} == {(endpoint, loop) for endpoint in Endpoint for loop in Loop}
    for batch in found.batches:
        assert batch.figures.requests == (2 if batch.loop is Loop.CLOSED else batch.figures.whole)
        assert batch.accept_length_from == "flushed"
        assert batch.accept_length == pytest.approx(2.0, rel=0.05)
    assert not verify(read_files(tmp_path / "run")).problems


async def test_a_run_that_is_stopped_goes_on_where_it_was_and_takes_another_engine(tmp_path) -> None:
    out = tmp_path / "run"
    settings = replace(_SETTINGS, repeats=4)
    words = ["--concurrency", "8", "--repeats", "4", "--sampling", "greedy", "--context", "100", "--output-tokens", "60", "--no-plots"]
    async with running("--enable-metrics --speculative-algorithm NEXTN", **_FAST) as mtp, running(**_FAST) as batch:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from mtpilot.cli.main import main; main()", "bench", mtp.url, "--out", str(out), *words,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        while b"2 of 4 batches" not in (told := await process.stderr.readline()):
            assert told, "it ended early"
        process.terminate()
        _, rest = await process.communicate()
        assert (process.returncode, b"--continue" in rest) == (1, True)
        assert not out.exists()
        kept = _batches_of((Path(f"{out}.part") / "records.jsonl").read_text())
        await _run(out, mtp.url, settings=settings, go_on=True)
        with pytest.raises(BenchError, match=r"another plan \(seed\)"):
            await _run(out, mtp.url, settings=replace(settings, seed=7), go_on=True)
        await _run(out, batch.url, settings=settings, go_on=True)
    assert kept == 2
    records = [record for record in open_package(out).records if isinstance(record, BatchRecord)]
    assert [(record.mode, record.repeat) for record in records] == [(mode, repeat) for mode in ("mtp", "batch") for repeat in range(4)]
    assert [record.batch for record in records] == list(range(8))
    assert not verify(read_files(out)).problems
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def _batches_of(text: str) -> int:
    return sum(json.loads(line)["kind"] == "batch" for line in text.splitlines())
