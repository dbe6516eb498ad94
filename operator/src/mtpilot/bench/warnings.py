"""What makes a run's figures unlike one another, or unlike production: a sentence each, with what would change it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mtpilot.api.throughput_profile import Acceptance
from mtpilot.evidence.alike import limit_words, unlike_words
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.records import BatchRecord

from .acceptance import at_bound
from .describing import slot_warnings
from .planning import Settings, Target, level_warnings

# The generator's own delay beyond which latencies are partly its own: in seconds, and as a share of the batch.
_WORST_LAG_SECONDS, _WORST_LAG_SHARE = 0.005, 0.01
_MOST_MARKERS_MISSING = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen besides the records. others: labels of batches beside which somebody else's requests ran."""

    repetitive: bool = False
    others: tuple[str, ...] = ()


def acceptance_of(
    told: Acceptance | None, settings: Settings, batches: Sequence[BatchRecord], engines: Sequence[Engine], seen: Seen
) -> str:
    """What the user says, else what the prompts are, unless the answers betray that drafts could not fail."""
    if told is not None:
        return told.value
    if seen.repetitive or _pinned(batches, engines):
        return Acceptance.SYNTHETIC.value
    return (Acceptance.SEMI_SYNTHETIC if settings.lengths else Acceptance.NATURAL).value


def warnings_of(
    settings: Settings, targets: Sequence[Target], engines: Sequence[Engine], batches: Sequence[BatchRecord], seen: Seen
) -> tuple[str, ...]:
    """All warnings of a run, each once."""
    found = [
        *unlike_words(engines),
        *limit_words(engines),
        *slot_warnings(engines),
        *level_warnings(settings, targets),
        *_queues(batches),
        *_acceptance(batches, engines, seen),
        *_correctness(batches),
        *_surroundings(batches, seen),
    ]
    return tuple(dict.fromkeys(found))


def _queues(batches: Sequence[BatchRecord]) -> Iterator[str]:
    levels: dict[str, set[int]] = defaultdict(set)
    for batch in batches:
        if batch.queue_measured and (batch.slots is None or batch.concurrency <= batch.slots):
            levels[batch.mode].add(batch.concurrency)
    for mode, found in levels.items():
        yield (
            f"{mode}: at {', '.join(map(str, sorted(found)))} at once requests waited though there were slots: KV memory binds, or "
            "somebody else has the slots; tokens/s there measure the queue"
        )


def _acceptance(batches: Sequence[BatchRecord], engines: Sequence[Engine], seen: Seen) -> Iterator[str]:
    if _pinned(batches, engines):
        yield "acceptance is synthetic: every draft was accepted, as no natural text is; mtp is measured too well. Use natural prompts"
    if seen.repetitive:
        yield (
            "acceptance is synthetic: the answers repeat themselves, and repeated words are always accepted; mtp is measured too well. Use "
            "prompts that ask for more text than --output-tokens, or --natural-end"
        )
    if any(batch.mode == "mtp" and batch.accept_length is None for batch in batches):
        yield "mtp: no accept length: start the engine with --enable-metrics, so that the curve can follow the live acceptance"


def _pinned(batches: Sequence[BatchRecord], engines: Sequence[Engine]) -> bool:
    arguments = {engine.mode: engine.arguments for engine in engines}
    return any(at_bound(batch, arguments.get(batch.mode, {})) for batch in batches)


def _correctness(batches: Sequence[BatchRecord]) -> Iterator[str]:
    leaked, failed = sum(batch.figures.leaked for batch in batches), sum(batch.figures.failed for batch in batches)
    total = sum(batch.figures.requests for batch in batches)
    missing, checked = sum(batch.figures.markers_missing for batch in batches), sum(batch.figures.markers_checked for batch in batches)
    if leaked:
        yield f"{leaked} of {total} answers have another request's marker: requests leak into one another; do not serve with this engine"
    if failed:
        yield f"{failed} of {total} requests failed (`error` in records.jsonl); tokens/s count whole answers only"
    if checked and missing > _MOST_MARKERS_MISSING * checked:
        yield f"{missing} of {checked} answers lack their own marker: answers are lost, or the model does not do what the prompt asks"


def _surroundings(batches: Sequence[BatchRecord], seen: Seen) -> Iterator[str]:
    if seen.others:
        yield f"other requests ran beside {len(seen.others)} batches (the first: {seen.others[0]}): measure an engine that nobody else uses"
    lags = [
        lag
        for batch in batches
        if (lag := batch.figures.lag_p99_seconds) is not None
        and lag > max(_WORST_LAG_SECONDS, _WORST_LAG_SHARE * batch.figures.wall_seconds)
    ]
    if lags:
        yield (
            f"in {len(lags)} of {len(batches)} batches the generator itself was late, by {max(lags) * 1000:.0f} ms at worst: run it on a "
            "machine with a free core, or take lower levels"
        )
    retracted = sum(batch.retracted_tokens or 0 for batch in batches)
    if retracted:
        yield f"{retracted} output tokens were thrown away for want of KV memory: lower --max-running-requests"
