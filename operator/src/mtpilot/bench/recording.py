"""From an exchange to its record, and from a batch's records and the engine's word to the batch's."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mtpilot.evidence.figures import figures_of, percentile
from mtpilot.evidence.records import BatchRecord, Loop, RequestRecord

from .acceptance import Counted
from .answers import Read, read_answer, trouble
from .markers import Row, check
from .planning import Batch, Settings

# Below it the batch ran, above it a request waited: requests that are being admitted stand in the queue for a moment.
_WAITING_MEAN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A batch as the run's `number`."""

    run_id: str
    number: int
    batch: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What is known of a request before it is sent. `prompt` is the whole text, with its marker."""

    index: int
    row: Row
    domain: str
    prompt: str
    asked_tokens: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The bytes of an answer and when they came. Times are seconds of the run's clock.

    due_seconds: when it should have been sent; reads: the instant of each read and the length of all that had come by then; error: why
    it ended early, empty where it did not.
    """

    due_seconds: float
    sent_seconds: float
    ended_seconds: float
    status: int
    raw: bytes
    reads: tuple[Read, ...]
    served_by: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The engine's load at one moment of a batch."""

    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A record, and the answer's text, which only checks over the whole batch need."""

    record: RequestRecord
    text: str


def request_record(
    of: Numbered,
    settings: Settings,
    sent: Sent,
    came: Exchanged,
    *,
    given_out: Collection[str],
    incremental: bool = False,
    keep_text: bool = False,
) -> Told:
    """Parse, judge and check one answer. given_out: all markers of the run."""
    batch = of.batch
    answer = read_answer(came.raw, came.reads, batch.endpoint, incremental=incremental)
    found = check(answer.text, sent.row, given_out)
    error = came.error or (_refused(came) if came.status != 200 else "")
    error = error or trouble(answer, asked_tokens=sent.asked_tokens, whole_length=settings.whole_length)
    gaps = [after - before for before, after in pairwise(answer.pieces)]
    record = RequestRecord(
        run_id=of.run_id,
        batch=of.number,
        index=sent.index,
        mode=batch.target.mode,
        route=batch.target.route,
        endpoint=batch.endpoint.value,
        sampling=batch.sampling,
        context_bucket=batch.context_bucket,
        loop=batch.loop,
        concurrency=batch.concurrency,
        repeat=batch.repeat,
        domain=sent.domain,
        prompt_sha256=_digest(sent.prompt),
        marker_ok=found.marker_ok,
        foreign_markers=found.foreign_markers,
        answer_ok=found.answer_ok,
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens or 0,
        asked_tokens=sent.asked_tokens,
        start_seconds=came.sent_seconds,
        ttft_seconds=answer.pieces[0] - came.sent_seconds if answer.pieces else None,
        latency_seconds=came.ended_seconds - came.sent_seconds,
        events=len(answer.pieces),
        event_gap_p50_seconds=percentile(gaps, 50),
        event_gap_p99_seconds=percentile(gaps, 99),
        event_gap_max_seconds=max(gaps, default=None),
        lag_seconds=max(0.0, came.sent_seconds - came.due_seconds),
        output_sha256=_digest(answer.text),
        error=error,
        rate_per_second=batch.rate_per_second,
        served_by=came.served_by,
        output=answer.text if keep_text else None,
    )
    return Told(record=record, text=answer.text)


def batch_record(
    of: Numbered,
    requests: Sequence[RequestRecord],
    looks: Sequence[Look],
    count: Counted | None,
    *,
    flushed_accept_length: float | None = None,
) -> BatchRecord:
    """The batch's record. count None: the engine has no counters; then an average since a flush stands for the accept length."""
    batch = of.batch
    waiting = [look.waiting for look in looks]
    running = [look.running for look in looks]
    accept = count.accept_length if count is not None else flushed_accept_length
    source = "counters" if count is not None else "flushed"
    return BatchRecord(
        run_id=of.run_id,
        batch=of.number,
        mode=batch.target.mode,
        route=batch.target.route,
        endpoint=batch.endpoint.value,
        sampling=batch.sampling,
        context_bucket=batch.context_bucket,
        loop=batch.loop,
        concurrency=batch.concurrency,
        repeat=batch.repeat,
        figures=figures_of(requests),
        slots=batch.target.slots,
        looks=len(looks),
        running_mean=_mean(running),
        running_max=max(running, default=None),
        queue_mean=_mean(waiting),
        queue_max=max(waiting, default=None),
        accept_length=None if accept is None else round(accept, 6),
        accept_length_from=source if accept is not None else None,
        generated_tokens=count.generated_tokens if count is not None else None,
        verify_calls=count.verify_calls if count is not None else None,
        retracted_tokens=count.retracted_tokens if count is not None else None,
        queue_measured=_queue_measured(batch, waiting),
        rate_per_second=batch.rate_per_second,
    )


def _queue_measured(batch: Batch, waiting: Sequence[int]) -> bool:
    """Whether a closed loop's clients waited for slots: more of them than slots, or a queue that stood through the batch."""
    if batch.loop is not Loop.CLOSED:
        return False
    if batch.target.slots is not None and batch.concurrency > batch.target.slots:
        return True
    standing = sorted(waiting)[len(waiting) // 2] if waiting else 0
    return batch.target.mode != "mixed" and standing > _WAITING_MEAN


def _mean(values: Sequence[int]) -> float | None:
    return round(sum(values) / len(values), 6) if values else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refused(came: Exchanged) -> str:
    return f"HTTP {came.status}: {came.raw[:200].decode('utf-8', 'replace').strip()}"
