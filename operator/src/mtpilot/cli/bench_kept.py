"""`mtpilot bench --keep-in`: one mode of a calibration, as the operator's Job runs it.

What was measured before, in this mode or the other, by this pod or one before it, is gone on with. The last mode makes the profile.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mtpilot.api.inference_service import Mode
from mtpilot.model.measuring import RunProgress, RunState

from . import exits

if TYPE_CHECKING:
    from mtpilot.bench.keeping import Shelf
    from mtpilot.bench.ledger import Ledger
    from mtpilot.bench.session import Finished, Options, Progress

    from .profile_making import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Where a calibration keeps what it has, and what its profile has to say of the model."""

    config_map: str
    facts: "Facts"


def measure_kept(options: "Options", out: Path, kept: Kept) -> "Finished":
    """Measure, tell how far it is, conclude; leaves the process with the reason where it cannot."""
    from mtpilot.adapters.kube.access import context_namespace
    from mtpilot.bench.engine import BenchError
    from mtpilot.bench.keeping import Shelf, TooLargeError
    from mtpilot.ports import ClusterError

    async def run() -> "Finished":
        _stop_on_signals()
        async with await Shelf.connect(namespace=context_namespace(), name=kept.config_map) as shelf:
            return await _run(options, out, kept, shelf)

    if len(options.targets) != 1 or options.targets[0].mode not in tuple(Mode):
        exits.leave("--keep-in measures one engine, as mtp=URL or batch=URL", exits.USAGE)
    try:
        return asyncio.run(run())
    except (asyncio.CancelledError, KeyboardInterrupt):
        exits.leave("stopped; what was measured is kept", exits.FAILED)
    except (BenchError, ClusterError, TooLargeError, OSError, ValueError) as error:
        exits.leave(str(error), exits.FAILED)


def _stop_on_signals() -> None:
    import signal

    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _run(options: "Options", out: Path, kept: Kept, shelf: "Shelf") -> "Finished":
    from mtpilot.bench.engine import BenchError
    from mtpilot.bench.keeping import TooLargeError
    from mtpilot.bench.ledger import Ledger
    from mtpilot.bench.session import measure

    ledger, mode = Ledger(out), options.targets[0].mode
    files = await shelf.begin()
    if files and not ledger.is_begun:
        ledger.restore(files)
    teller = _Teller(shelf=shelf, ledger=ledger, mode=mode, had=_had(ledger, mode), seconds=options.settings.duration_seconds)
    writing = asyncio.create_task(teller.write())
    try:
        finished = await measure(options, ledger, go_on=ledger.is_begun, on_progress=teller.told)
        await teller.end()
        await writing
    except TooLargeError as error:
        await shelf.tell(mode, RunProgress(state=RunState.FAILED, message=str(error)))
        raise
    except BenchError as error:
        await shelf.tell(mode, RunProgress(state=RunState.MEASURING, message=str(error)[:1024]))
        raise
    finally:
        writing.cancel()
    await _conclude(finished, out, kept, shelf, teller)
    return finished


def _had(ledger: "Ledger", mode: str) -> int:
    """Batches of the mode that there are already."""
    from mtpilot.evidence.records import BatchRecord

    records = ledger.read()[1] if ledger.is_begun else []
    return sum(isinstance(record, BatchRecord) and record.mode == mode for record in records)


@dataclass(slots=True, kw_only=True)
class _Teller:
    """Writes the newest progress, one write at a time; what comes in between is left out."""

    shelf: "Shelf"
    ledger: "Ledger"
    mode: str
    had: int
    seconds: float
    newest: RunProgress | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _over: bool = False

    def told(self, step: "Progress") -> None:
        from mtpilot.bench.forecast import seconds_left

        done = self.had + len(step.done)
        following = f"{step.rest[0].load} is next" if step.rest else "all batches are measured"
        self.newest = RunProgress(
            state=RunState.MEASURING,
            done=done,
            total=done + len(step.rest),
            seconds_left=seconds_left(step.rest, step.done, duration_seconds=self.seconds),
            message=f"{self.mode}: {following}",
        )
        self._wake.set()

    async def write(self) -> None:
        while not self._over or self._wake.is_set():
            await self._wake.wait()
            self._wake.clear()
            if self.newest is not None:
                await self.shelf.tell(self.mode, self.newest, self.ledger.files())

    async def end(self) -> None:
        """What was told last is written when the task ends."""
        self._over = True
        self._wake.set()


async def _conclude(finished: "Finished", out: Path, kept: Kept, shelf: "Shelf", teller: _Teller) -> None:
    batches = sum(batch.mode == teller.mode for batch in finished.batches)
    problem = _implausible(out)
    if problem is not None:
        failed = RunProgress(state=RunState.FAILED, done=batches, total=batches, message=problem[:1024])
        await shelf.conclude(teller.mode, failed, problem=problem[:4096])
        exits.leave(problem, exits.FAILED)
    profile = None
    if {batch.mode for batch in finished.batches} >= set(Mode):
        profile, problem = await asyncio.to_thread(_profile, out, kept.facts)
    measured = RunProgress(state=RunState.MEASURED, done=batches, total=batches, seconds_left=0.0, message=f"{teller.mode} is measured")
    await shelf.conclude(teller.mode, measured, profile=profile, problem=problem, tables=(out / "tables.json").read_bytes())


def _implausible(out: Path) -> str | None:
    """Why what was measured so far must not become a profile."""
    from mtpilot.evidence.files import open_package
    from mtpilot.evidence.measured import Choice, taken_from
    from mtpilot.evidence.plausible import implausible

    package = open_package(out)
    return "\n".join(implausible(package, taken_from(package, Choice()).batches)) or None


def _profile(out: Path, facts: "Facts") -> tuple[str | None, str | None]:
    """The profile's spec as JSON, or why there is none. Without scipy the table itself is the curve."""
    from mtpilot.evidence.measured import Choice
    from mtpilot.evidence.plausible import ImplausibleRun

    from .profile_package import make_from_package

    try:
        try:
            made = make_from_package(out, facts, Choice(), name=None)
        except ImportError:
            made = make_from_package(out, facts, Choice(), name=None, table_only=True)
    except (ImplausibleRun, OSError, ValueError) as error:
        return None, str(error)[:4096]
    return made.named.spec.model_dump_json(by_alias=True, exclude_none=True), None
