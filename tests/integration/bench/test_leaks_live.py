"""Engines that mix rows up, lose their ends, or stop, against the real command."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from mtpilot.evidence.files import open_package
from mtpilot.evidence.records import BatchRecord
from tests.integration.bench.simulators import engines, mtpilot

_CURVE = "qwen3.5-122b-4xrtxpro6000"
_WORDS = ("--concurrency", "8", "--repeats", "1", "--sampling", "greedy", "--context", "100", "--output-tokens", "60", "--no-plots", "--json")


async def test_each_fault_of_an_engine_is_found_and_a_sound_one_passes(tmp_path) -> None:
    async with engines(tmp_path, ("batch",), curve=_CURVE, slots={"batch": 24}, time_scale=10.0) as (engine,):
        sound = await mtpilot("bench", engine.url, "--out", str(tmp_path / "sound"), *_WORDS)
        found = {}
        for fault in ("swap", "merge", "truncate"):
            # NB: the warm-up meets the fault too, and must not end the run.
            await engine.fault({"rows": fault})
            found[fault] = await mtpilot("bench", engine.url, "--out", str(tmp_path / fault), *_WORDS)
    assert (sound.code, sound.document["leaked"], sound.document["failed"]) == (0, 0, 0), sound.err
    assert found["swap"].code == found["merge"].code == found["truncate"].code == 1
    assert found["swap"].document["leaked"] > 0
    assert found["merge"].document["leaked"] > 0
    assert "do not serve" in " ".join(found["merge"].document["warnings"])
    assert "cut short" in found["truncate"].err


async def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path) -> None:
    out = tmp_path / "run"
    words = (*_WORDS[:2], "--repeats", "4", *_WORDS[4:])
    async with engines(tmp_path, ("mtp", "batch"), curve=_CURVE, slots={"mtp": 24, "batch": 24}, time_scale=4.0) as (mtp, batch):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from mtpilot.cli.main import main; main()", "bench", mtp.url, "--out", str(out), *words,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        while b"2 of 4 batches" not in (told := await process.stderr.readline()):
            assert told, "it ended early"
        process.send_signal(signal.SIGTERM)
        _, rest = await process.communicate()
        assert process.returncode == 1
        assert b"--continue" in rest
        assert not out.exists()
        kept = _batches_of((Path(f"{out}.part") / "records.jsonl").read_text())

        went_on = await mtpilot("bench", mtp.url, "--out", str(out), "--continue", *words)
        added = await mtpilot("bench", batch.url, "--out", str(out), "--continue", *words)
        other = await mtpilot("bench", batch.url, "--out", str(out), "--continue", *words, "--seed", "7")
    assert kept == 2
    assert went_on.code == added.code == 0, went_on.err + added.err
    assert b"0 of 2 batches" in went_on.err.encode()
    records = [record for record in open_package(out).records if isinstance(record, BatchRecord)]
    assert [(record.mode, record.repeat) for record in records] == [(mode, repeat) for mode in ("mtp", "batch") for repeat in range(4)]
    assert [record.batch for record in records] == list(range(8))
    assert (other.code, "another plan (seed)" in other.err) == (1, True)
    assert (await mtpilot("evidence", "verify", str(out))).code == 0


def _batches_of(text: str) -> int:
    return sum(json.loads(line)["kind"] == "batch" for line in text.splitlines())
