"""What makes a run one that must not become a profile: a failed, leaking or contradictory measurement moves replicas wrongly for months."""

from collections.abc import Iterator, Sequence

from mtpilot.api.inference_service import Mode

from .environment import Engine
from .measured import drafted_tokens, engines_of
from .package import Package
from .records import BatchRecord

# A step-time model that misses the points by more has been given noise, or another machine's numbers.
WORST_MAPE = 0.15
_MOST_FAILED = 0.05
_MOST_MARKERS_MISSING = 0.10
_ROUNDING = 0.01


class ImplausibleRun(ValueError):  # noqa: N818 - the words of the message
    """A run that cannot become a profile; the message has one line for each reason."""


def implausible(package: Package, taken: Sequence[BatchRecord], step_time_mape: float | None = None) -> list[str]:
    """Why not, in words with the number and what would change it; empty: nothing speaks against it.

    taken: the batches that make the points. step_time_mape: of the fit to them, None: not fitted.
    """
    engines = engines_of(package, taken)
    return [
        *_of_the_run(package),
        *_of_markers([record for record in package.records if isinstance(record, BatchRecord)]),
        *_of_failures(taken),
        *(text for engine in engines for text in _of_slots(engine, taken)),
        *_of_acceptance(engines, taken),
        *_of_the_fit(step_time_mape),
    ]


def _of_the_run(package: Package) -> Iterator[str]:
    measured = any(isinstance(record, BatchRecord) and not record.told_by for record in package.records)
    if measured and package.environment.finished_at is None:
        yield "the run did not finish: let it finish, or start it again"


def _of_markers(batches: Sequence[BatchRecord]) -> Iterator[str]:
    leaked = [batch for batch in batches if batch.figures.leaked]
    if leaked:
        where = ", ".join(sorted({f"{batch.mode} at {batch.concurrency}" for batch in leaked}))
        count, total = sum(batch.figures.leaked for batch in leaked), sum(batch.figures.requests for batch in batches)
        yield f"{count} of {total} answers have another request's marker ({where}): requests leak into one another, do not serve with it"
    for mode in sorted({batch.mode for batch in batches}):
        checked = sum(batch.figures.markers_checked for batch in batches if batch.mode == mode)
        missing = sum(batch.figures.markers_missing for batch in batches if batch.mode == mode)
        if checked and missing > _MOST_MARKERS_MISSING * checked:
            yield (
                f"{mode}: {missing} of {checked} answers lack their own marker, more than {_MOST_MARKERS_MISSING:.0%}: "
                "answers are cut or lost, or the model does not do what the prompt asks"
            )


def _of_failures(taken: Sequence[BatchRecord]) -> Iterator[str]:
    for mode in sorted({batch.mode for batch in taken}):
        failed = sum(batch.figures.failed for batch in taken if batch.mode == mode)
        total = sum(batch.figures.requests for batch in taken if batch.mode == mode)
        if failed > _MOST_FAILED * total:
            yield f"{mode}: {failed} of {total} requests failed, more than {_MOST_FAILED:.0%}: see `error` in records.jsonl"


def _of_slots(engine: Engine, taken: Sequence[BatchRecord]) -> Iterator[str]:
    if engine.slots is not None and engine.asked_slots is not None and engine.slots != engine.asked_slots:
        yield (
            f"{engine.mode}: the engine runs {engine.slots} requests at most, its arguments ask for {engine.asked_slots}: what was "
            f"measured is not what is configured; set maxRunningRequests to {engine.slots}, or make room (`mtpilot capacity` says how)"
        )
    seen = {batch.slots for batch in taken if batch.mode == engine.mode and batch.route == engine.route and batch.slots is not None}
    if engine.slots is not None and seen - {engine.slots}:
        told = ", ".join(map(str, sorted(seen)))
        yield f"{engine.mode}: the engine told {engine.slots} slots at the start and {told} during the run: it was changed or restarted"


def _of_acceptance(engines: Sequence[Engine], taken: Sequence[BatchRecord]) -> Iterator[str]:
    drafted = drafted_tokens(engines)
    longest = max((batch.accept_length for batch in taken if batch.mode == Mode.MTP and batch.accept_length is not None), default=None)
    if drafted is not None and longest is not None and longest > (drafted + 1) * (1 + _ROUNDING):
        yield f"mtp: accept length {longest:g} with {drafted} drafted tokens, which give {drafted + 1} at most: it was counted wrongly"


def _of_the_fit(step_time_mape: float | None) -> Iterator[str]:
    if step_time_mape is not None and step_time_mape > WORST_MAPE:
        yield (
            f"the step-time model misses the points of a mode by {step_time_mape:.0%} in the mean, more than {WORST_MAPE:.0%}: something "
            "else ran beside it, or levels were not measured alike; measure again, with more repeats (and for a MoE give --experts)"
        )
