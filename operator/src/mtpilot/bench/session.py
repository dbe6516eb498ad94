"""A run from its addresses to its package."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex

from mtpilot.api.throughput_profile import Acceptance
from mtpilot.evidence.environment import Engine, Environment
from mtpilot.evidence.records import BatchRecord, Record
from mtpilot.evidence.server_info import mode_of, slots_of
from mtpilot.telemetry.metrics import version

from .acceptance import is_repetitive
from .client import open_session, run_clock
from .composing import Composer
from .describing import engine_of, flags_of_both
from .engine import BenchError, EngineClient
from .forecast import Done
from .ledger import Ledger
from .planning import Batch, Settings, Target, batches, key_of, plan_document
from .prompts import Prompts
from .running import Measured, Outcome, Runner
from .warnings import Seen, acceptance_of, warnings_of

_WEIGHTS = "tokens_per_character"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is told. headers carry the key; hardware_class and image describe engines that cannot say it themselves."""

    targets: tuple[Target, ...]
    settings: Settings
    prompts: Prompts
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    hardware_class: str | None = None
    image: str | None = None
    acceptance: Acceptance | None = None
    keep_text: bool = False
    timeout_seconds: float = 600.0
    look_seconds: float = 0.5
    plots: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Told before each batch: what was done, what is left (the next one first), and the last outcome."""

    done: Sequence[Done]
    rest: Sequence[Batch]
    last: Outcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A complete run. leaked, failed: answers with another's marker, and requests without a whole answer."""

    environment: Environment
    records: tuple[Record, ...]

    @property
    def batches(self) -> list[BatchRecord]:
        return [record for record in self.records if isinstance(record, BatchRecord)]

    @property
    def leaked(self) -> int:
        return sum(batch.figures.leaked for batch in self.batches)

    @property
    def failed(self) -> int:
        return sum(batch.figures.failed for batch in self.batches)


async def measure(
    options: Options, ledger: Ledger, *, go_on: bool = False, on_progress: Callable[[Progress], None] | None = None
) -> Finished:
    """Run all batches that the ledger does not have yet, and write the package.

    go_on: with the run that the ledger holds; engines may be added to it. A run that is cancelled keeps its whole batches.

    Raises:
        BenchError: an engine does not answer, does not tell its mode, or the ledger's run has another plan.
        OSError, ValueError: the ledger cannot be read or written.
    """
    async with open_session() as session:
        targets, engines = [], []
        measured: dict[Target, Measured] = {}
        for target in options.targets:
            one, engine = await _ask(EngineClient(session, target.url, options.headers), target, options)
            targets.append(one.target)
            engines.append(engine)
            measured[one.target] = one
        planned = batches(options.settings, targets)
        run = _Run(options=options, ledger=ledger, engines=engines)
        run.begin(go_on=go_on)
        composer = Composer(run_id=run.environment.run_id, settings=options.settings, prompts=options.prompts)
        runner = Runner(
            composer=composer,
            session=session,
            headers={**options.headers, "Content-Type": "application/json"},
            clock=run_clock(run.seconds),
            given_out=composer.markers(planned),
            timeout_seconds=options.timeout_seconds,
            look_seconds=options.look_seconds,
            keep_text=options.keep_text,
        )
        had = {key_of(record) for record in run.batches}
        rest = [batch for batch in planned if batch.key not in had]
        await _prepare(runner, measured, rest, run)
        await _batches(runner, measured, rest, run, on_progress)
    return run.finish()


async def _ask(client: EngineClient, target: Target, options: Options) -> tuple[Measured, Engine]:
    info = await client.server_info()
    mode = target.mode or (mode_of(info) if info else "")
    if not mode:
        raise BenchError(f"{target.url} has no /server_info that tells its mode: say mtp={target.url}, batch=… or mixed=…")
    slots = (slots_of(info) if info else None) or await client.slots()
    target = replace(target, mode=mode, slots=slots)
    model = options.model or await client.model()
    engine = engine_of(info, target, model=model, hardware_class=options.hardware_class, image=options.image)
    incremental = bool(info and info.get("incremental_streaming_output"))
    return Measured(target=target, client=client, model=model, incremental=incremental), engine


async def _prepare(runner: Runner, measured: Mapping[Target, Measured], rest: Sequence[Batch], run: "_Run") -> None:
    """Weigh the prompts once, so that all modes get the same, and warm up each engine at its highest level that is still to come."""
    for one in measured.values():
        mine = [batch for batch in rest if batch.target == one.target]
        if not mine:
            continue
        if not run.weights:
            run.weights = await runner.weigh(one, mine[0])
        runner.composer.weights.update(run.weights)
        within = [batch for batch in mine if batch.target.slots is None or batch.concurrency <= batch.target.slots]
        closed = [batch for batch in within or mine if batch.concurrency]
        if closed:
            await runner.warm_up(one, max(closed, key=lambda batch: batch.concurrency))
    run.note()


async def _batches(
    runner: Runner,
    measured: Mapping[Target, Measured],
    rest: Sequence[Batch],
    run: "_Run",
    on_progress: Callable[[Progress], None] | None,
) -> None:
    done: list[Done] = []
    last: Outcome | None = None
    for at, batch in enumerate(rest):
        if on_progress is not None:
            on_progress(Progress(done=done, rest=rest[at:], last=last))
        began = runner.clock()
        last = await runner.run(len(run.batches), measured[batch.target], batch)
        run.add(batch, last)
        done.append(Done(batch=batch, seconds=runner.clock() - began))
    if on_progress is not None:
        on_progress(Progress(done=done, rest=(), last=last))


class _Run:
    """The run's environment and records as they grow."""

    def __init__(self, *, options: Options, ledger: Ledger, engines: Sequence[Engine]) -> None:
        self._options, self._ledger = options, ledger
        digest = sha256(repr(options.prompts).encode()).hexdigest()
        self.environment = Environment(
            run_id=token_hex(6),
            mtpilot_version=version(),
            started_at=_now(),
            finished_at=None,
            acceptance=Acceptance.NATURAL.value,
            engines=tuple(engines),
            plan=plan_document(options.settings, options.prompts.name, digest),
            batches=0,
            requests=0,
            host={"python": platform.python_version(), "machine": platform.machine()},
        )
        self.records: list[Record] = []
        self.batches: list[BatchRecord] = []
        self.weights: dict[str, float] = {}
        self._repetitive = False
        self._others: list[str] = []

    @property
    def seconds(self) -> float:
        """Where the run's clock goes on."""
        return max((batch.figures.start_seconds + batch.figures.wall_seconds for batch in self.batches), default=0.0)

    def begin(self, *, go_on: bool) -> None:
        """Raises BenchError where the ledger's run has another plan."""
        if go_on:
            before, self.records = self._ledger.read()
            if dict(before.plan) != dict(self.environment.plan):
                unlike = sorted(
                    key for key in {*before.plan, *self.environment.plan} if before.plan.get(key) != self.environment.plan.get(key)
                )
                raise BenchError(
                    f"the run that is there has another plan ({', '.join(unlike)}): go on with its options, or take a new --out"
                )
            mine = {(engine.mode, engine.route) for engine in self.environment.engines}
            kept = tuple(engine for engine in before.engines if (engine.mode, engine.route) not in mine)
            self.environment = replace(
                self.environment,
                run_id=before.run_id,
                started_at=before.started_at,
                engines=(*kept, *self.environment.engines),
            )
            self.weights = dict(before.host.get(_WEIGHTS) or {})
            self._repetitive = before.acceptance == Acceptance.SYNTHETIC.value and self._options.acceptance is None
            self.batches = [record for record in self.records if isinstance(record, BatchRecord)]
        self._ledger.begin(self.environment, self.records)

    def add(self, batch: Batch, outcome: Outcome) -> None:
        """A batch more, on disk at once."""
        self._repetitive = self._repetitive or (bool(batch.target.mode == "mtp") and is_repetitive(outcome.texts))
        if outcome.others:
            self._others.append(f"{batch.target.name}, {batch.load}")
        self.records += (*outcome.requests, outcome.record)
        self.batches.append(outcome.record)
        self._ledger.append((*outcome.requests, outcome.record))

    def note(self) -> None:
        """The environment as it stands, on disk."""
        seen = Seen(repetitive=self._repetitive, others=tuple(self._others))
        engines, settings = self.environment.engines, self._options.settings
        targets = [Target(mode=engine.mode, route=engine.route, url=engine.url, slots=engine.slots) for engine in engines]
        self.environment = replace(
            self.environment,
            acceptance=acceptance_of(self._options.acceptance, settings, self.batches, engines, seen),
            batches=len(self.batches),
            requests=len(self.records) - len(self.batches),
            warnings=warnings_of(settings, targets, engines, self.batches, seen),
            flags_sha256=flags_of_both(engines),
            host={**self.environment.host, _WEIGHTS: self.weights},
        )
        self._ledger.note(self.environment)

    def finish(self) -> Finished:
        """The package."""
        self.note()
        self.environment = replace(self.environment, finished_at=_now())
        self._ledger.finish(self.environment, self.records, plots=self._options.plots)
        return Finished(environment=self.environment, records=tuple(self.records))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
