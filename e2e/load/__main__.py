"""The load generator's own process: reads one plan, sends it, writes records, prints counters.

A process of its own keeps its garbage collection and its parsing out of the process that watches; it stops when its
standard input is closed, so that no load outlives the one who asked for it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from e2e.load.exchange import parse_target
from e2e.load.generator import Generator
from e2e.load.result import Record
from e2e.load.schedule import Request, Schedule

_REPORT_SECONDS = 0.5


def _report(generator: Generator, kind: str) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    document = {"kind": kind, **generator.counters.document(), "cpu_seconds": usage.ru_utime + usage.ru_stime}
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


async def _stop_when_input_ends(generator: Generator) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        await reader.read()
        generator.stop()
    finally:
        transport.close()


async def _report_regularly(generator: Generator) -> None:
    while True:
        await asyncio.sleep(_REPORT_SECONDS)
        _report(generator, "counters")


async def _run(plan: dict[str, Any], records: TextIO) -> None:
    def write(record: Record) -> None:
        records.write(json.dumps(asdict(record)) + "\n")

    generator = Generator(
        targets=[parse_target(url) for url in plan["targets"]],
        model=plan["model"],
        timeout_seconds=plan["timeout_seconds"],
        words_are_tokens=plan["words_are_tokens"],
        on_record=write,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, generator.stop)
    background = [asyncio.create_task(_report_regularly(generator)), asyncio.create_task(_stop_when_input_ends(generator))]
    try:
        if "schedule" in plan:
            await generator.replay(Schedule.read(Path(plan["schedule"])))
        else:
            steady = plan["steady"]
            await generator.steady(
                clients=steady["clients"],
                request=Request(**steady["request"]),
                seconds=steady["seconds"],
                pause_seconds=steady["pause_seconds"],
            )
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
    _report(generator, "end")


def _paths() -> tuple[Path, Path]:
    parser = argparse.ArgumentParser(prog="python -m e2e.load", description="Send the requests of one plan and record each answer.")
    parser.add_argument(
        "plan", type=Path, metavar="PLAN.json", help="what e2e/load/process.py writes: targets, model, schedule or steady load"
    )
    parser.add_argument("records", type=Path, metavar="RECORDS.jsonl", help="file to write: a line for each request")
    given = parser.parse_args()
    return given.plan, given.records


def main() -> None:
    """`python -m e2e.load PLAN.json RECORDS.jsonl`; it stops when its standard input ends."""
    plan_path, records_path = _paths()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard > soft else soft, hard))
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    plan = json.loads(plan_path.read_text())
    with records_path.open("w", encoding="utf-8", buffering=1) as records:
        asyncio.run(_run(plan, records))


if __name__ == "__main__":
    main()
