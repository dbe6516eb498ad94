"""Runs the generator as a process and reads it: the interface that the demo and the integration tests use.

`run_load` replays a schedule to its end; `background_load` keeps clients busy while a test does something to the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from e2e.load.exchange import parse_target
from e2e.load.result import LoadResult, read_records
from e2e.load.schedule import MAX_SECONDS, Request, Schedule

OnCounters = Callable[[dict[str, Any]], None]
MAX_CLIENTS = 512
_ROOT = Path(__file__).resolve().parents[2]


class LoadGeneratorError(RuntimeError):
    """The generator's process ended by an error of its own; the message is the end of its standard error."""


class _Process:
    """A generator at work in `directory`; `counters` holds its last report."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, on_counters: OnCounters | None) -> None:
        self.process = process
        self.counters: dict[str, Any] = {}
        self._directory = directory
        self._on_counters = on_counters
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, plan: dict[str, Any], directory: Path, on_counters: OnCounters | None) -> _Process:
        (directory / "plan.json").write_text(json.dumps(plan))
        with (directory / "stderr.txt").open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "e2e.load", str(directory / "plan.json"), str(directory / "records.jsonl"),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=stderr, cwd=_ROOT,
            )  # fmt: skip
        return cls(process, directory, on_counters)

    async def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        async for line in self.process.stdout:
            self.counters = json.loads(line)
            if self._on_counters is not None:
                self._on_counters(self.counters)

    def stop_sending(self) -> None:
        """Ask for the end: nothing more is sent, what is in flight is answered."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def result(self) -> LoadResult:
        """Wait for the process to end and read its records."""
        await self._reading
        code = await self.process.wait()
        if code != 0:
            raise LoadGeneratorError(f"exit code {code}: {(self._directory / 'stderr.txt').read_text()[-2000:]}")
        return LoadResult(
            records=read_records(self._directory / "records.jsonl"),
            cpu_seconds=self.counters.get("cpu_seconds", 0.0),
            worst_lag_seconds=self.counters.get("worst_lag_seconds", 0.0),
            peak_in_flight=self.counters.get("peak_in_flight", 0),
        )

    async def kill(self) -> None:
        """End it at once, if it is still there."""
        self._reading.cancel()
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        await asyncio.gather(self._reading, return_exceptions=True)


@contextlib.contextmanager
def _directory(given: Path | None) -> Any:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="mtpilot-load-") as name:
        yield Path(name)


def _plan(targets: Sequence[str], model: str, timeout_seconds: float, words_are_tokens: bool) -> dict[str, Any]:
    if not targets:
        raise ValueError("load needs at least one target")
    urls = [parse_target(url).url for url in targets]
    return {"targets": urls, "model": model, "timeout_seconds": timeout_seconds, "words_are_tokens": words_are_tokens}


async def run_load(
    schedule: Schedule,
    targets: Sequence[str],
    *,
    model: str,
    timeout_seconds: float = 120.0,
    words_are_tokens: bool = True,
    directory: Path | None = None,
    on_counters: OnCounters | None = None,
) -> LoadResult:
    """Replay `schedule` against `targets` in turn (base URLs on loopback) and wait for every answer.

    `timeout_seconds` bounds one request; `on_counters` gets the totals twice a second (`generator.Counters`); records are
    kept in `directory`, if given. Raises ValueError for a target that is not on loopback.
    """
    plan = _plan(targets, model, timeout_seconds, words_are_tokens)
    with _directory(directory) as work:
        schedule.write(work / "schedule.json")
        running = await _Process.start({**plan, "schedule": str(work / "schedule.json")}, work, on_counters)
        try:
            async with asyncio.timeout(schedule.seconds + timeout_seconds + 30):
                return await running.result()
        finally:
            await running.kill()


class BackgroundLoad:
    """Closed-loop load that is running; `result` is there after the `async with` block."""

    def __init__(self, process: _Process) -> None:
        self._process = process
        self.result: LoadResult | None = None

    @property
    def counters(self) -> dict[str, Any]:
        """Totals so far, half a second old at most; empty at first."""
        return self._process.counters

    async def wait_completed(self, count: int, *, timeout_seconds: float = 60.0) -> None:
        """Until `count` more answers are complete than now; TimeoutError otherwise."""
        goal = self.counters.get("completed", 0) + count
        async with asyncio.timeout(timeout_seconds):
            while self.counters.get("completed", 0) < goal:
                await asyncio.sleep(0.1)

    async def stop(self) -> LoadResult:
        """Send nothing more, wait for what is in flight, and give the result."""
        if self.result is None:
            self._process.stop_sending()
            self.result = await self._process.result()
        return self.result


@contextlib.asynccontextmanager
async def background_load(
    targets: Sequence[str],
    *,
    clients: int,
    model: str,
    input_tokens: int = 50,
    output_tokens: int = 100,
    pause_seconds: float = 0.0,
    max_seconds: float = 300.0,
    timeout_seconds: float = 120.0,
    words_are_tokens: bool = True,
    directory: Path | None = None,
) -> AsyncIterator[BackgroundLoad]:
    """`clients` clients in a closed loop until the block ends (or `max_seconds`); leaving it waits for the last answers.

    Raises ValueError for a target off loopback, more than 512 clients or more than 900 s.
    """
    if not 1 <= clients <= MAX_CLIENTS or not 0 < max_seconds <= MAX_SECONDS:
        raise ValueError(f"1 to {MAX_CLIENTS} clients for at most {MAX_SECONDS:.0f} s")
    request = Request(at_seconds=0.0, input_tokens=input_tokens, output_tokens=output_tokens)
    steady = {"clients": clients, "request": asdict(request), "seconds": max_seconds, "pause_seconds": pause_seconds}
    plan = _plan(targets, model, timeout_seconds, words_are_tokens)
    with _directory(directory) as work:
        running = await _Process.start({**plan, "steady": steady}, work, None)
        load = BackgroundLoad(running)
        try:
            yield load
            async with asyncio.timeout(timeout_seconds + 30):
                await load.stop()
        finally:
            await running.kill()
