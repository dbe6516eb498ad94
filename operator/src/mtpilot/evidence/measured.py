"""The points of a profile out of a package: which of its batches are taken, and at what they stand."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mtpilot.api.inference_service import Mode
from mtpilot.curves.measurements import Measurement

from .environment import Engine
from .levels import tokens_per_second
from .package import Package
from .records import BatchRecord, Loop, Sampling

DIRECT = "direct"
_FEWEST_LEVELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which batches, where a run has several kinds. None: the only one; else the direct route, and sampled text, as production has it."""

    route: str | None = None
    endpoint: str | None = None
    sampling: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The batches that make the points, and what was left out, in words."""

    batches: tuple[BatchRecord, ...]
    notes: tuple[str, ...] = ()


def taken_from(package: Package, choice: Choice) -> Taken:
    """The closed-loop batches of both modes, of one route, endpoint and sampling.

    Levels where requests waited for a slot are left out where a mode has three others: there the queue was measured, not the engine.

    Raises:
        ValueError: there are none, or the package has several kinds and none is to be preferred.
    """
    batches = [record for record in package.records if isinstance(record, BatchRecord)]
    found = [batch for batch in batches if batch.loop is Loop.CLOSED and batch.mode in tuple(Mode)]
    if not found:
        raise ValueError("it has no batch of a closed loop in mode mtp or batch: nothing to make a curve of")
    found = _only(found, "route", choice.route, preferred=DIRECT)
    found = _only(found, "endpoint", choice.endpoint, preferred=None)
    found = _only(found, "sampling", choice.sampling, preferred=Sampling.SAMPLED)
    kept: list[BatchRecord] = []
    notes = []
    for mode in Mode:
        mine = [batch for batch in found if batch.mode == mode]
        free = [batch for batch in mine if not batch.queue_measured]
        enough = len({batch.concurrency for batch in free}) >= _FEWEST_LEVELS
        kept += free if enough else mine
        if enough and (waited := sorted({batch.concurrency for batch in mine if batch.queue_measured})):
            notes.append(f"{mode} at {', '.join(map(str, waited))} requests is left out: some waited for a slot, so the queue was measured")
    return Taken(batches=tuple(kept), notes=tuple(notes))


def measurements_of_batches(batches: Sequence[BatchRecord], engines: Sequence[Engine]) -> list[Measurement]:
    """One measurement for each batch that answered something. Contexts of one bucket stand at their mean while decoding, in tokens."""
    contexts = _contexts(batches)
    slots = {engine.mode: engine.slots for engine in engines}
    return [
        Measurement(
            mode=Mode(batch.mode),
            concurrency=batch.concurrency,
            context_tokens=contexts[batch.context_bucket],
            output_tokens_per_second=rate,
            per_request_tokens_per_second=_below(batch.figures.per_request_tokens_per_second, rate),
            accept_length=batch.accept_length if batch.mode == Mode.MTP else None,
            slots=slots.get(batch.mode) or batch.slots,
        )
        for batch in batches
        if (rate := tokens_per_second(batch)) is not None
    ]


def engines_of(package: Package, batches: Sequence[BatchRecord]) -> list[Engine]:
    """The engines that these batches were measured on."""
    wanted = {(batch.mode, batch.route) for batch in batches}
    return [engine for engine in package.environment.engines if (engine.mode, engine.route) in wanted]


def drafted_tokens(engines: Sequence[Engine]) -> int | None:
    """K of the mtp engine: what its arguments call draft tokens counts the verified one too. None: not told."""
    for engine in engines:
        verified = engine.arguments.get("speculative_num_draft_tokens")
        if engine.mode == Mode.MTP and isinstance(verified, int) and verified > 1:
            return verified - 1
    return None


def _only(batches: Sequence[BatchRecord], field: str, wanted: str | None, *, preferred: str | None) -> list[BatchRecord]:
    values = sorted({str(getattr(batch, field)) for batch in batches})
    taken = wanted if wanted is not None else values[0] if len(values) == 1 else preferred
    if taken is None or taken not in values:
        raise ValueError(f"it has the {field}s {', '.join(values)}: choose one with --{field}")
    return [batch for batch in batches if getattr(batch, field) == taken]


def _contexts(batches: Sequence[BatchRecord]) -> dict[int, int]:
    """Bucket to tokens: the prompt and half of the answer, over all modes, so that their curves stand at one context."""

    def sums() -> Iterator[tuple[int, int]]:
        for bucket, found in groups.items():
            whole = sum(one.figures.whole for one in found)
            tokens = sum(one.figures.prompt_tokens + one.figures.completion_tokens / 2 for one in found)
            yield bucket, max(1, round(tokens / whole)) if whole else max(1, bucket)

    groups: dict[int, list[BatchRecord]] = defaultdict(list)
    for batch in batches:
        groups[batch.context_bucket].append(batch)
    return dict(sums())


def _below(one: float | None, total: float) -> float | None:
    """One request's rate; a replica's rate that counts waiting may be below it, and then it says nothing of the replica."""
    return one if one is not None and one <= total else None
