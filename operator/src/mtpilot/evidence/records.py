"""What a benchmark writes down: one record a request and one a batch, as lines of records.jsonl.

A batch's figures follow from its requests alone (`figures.py`), so that whoever has the records can recompute every table; what only the
engine could say of the batch (slots, queue, accept length, retractions) stands in the batch's record. Times are seconds with six
decimals, counted from the run's start by a clock that is never set.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

_DECIMALS = 6
_FIELDS: dict[type[Any], dict[str, None]] = {}


class Loop(StrEnum):
    """How requests follow one another."""

    CLOSED = "closed"  # so many clients, each with one request at a time
    OPEN = "open"  # Poisson arrivals at a given rate, whatever the engine makes of them


class Sampling(StrEnum):
    """How tokens were drawn; the parameters stand in the environment."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request of a batch.

    `batch` counts the run's batches from 0, `index` the requests of the batch, so that a missing or repeated line shows. `mode` is mtp,
    batch, or mixed behind a gateway; `route` names the way there (`direct` for the engine itself, or what the user calls it); `endpoint` is
    chat, completions or generate. `concurrency` is the number of clients, 0 in an open loop, which has a rate instead. `context_bucket` is
    the planned prompt length in tokens, `prompt_tokens` what the engine counted, `asked_tokens` the output limit. `start_seconds` is the
    instant of sending, `lag_seconds` how late that was.

    `ttft_seconds` is None without a first piece of text. The `event_gap` figures are over the times between two pieces of text; with
    speculation a piece holds several tokens. `marker_ok`: its own marker is in the answer; `foreign_markers`: other rows' markers in it;
    `answer_ok`: the answer that the prompt required is there; both None where the prompt asked for none. `error` is empty where the answer
    was whole. What another tool did not tell of an imported request is None. Floats are rounded when the record is made, so that figures
    are the same before and after writing.
    """

    run_id: str
    batch: int
    index: int
    mode: str
    route: str
    endpoint: str
    sampling: Sampling
    context_bucket: int
    loop: Loop
    concurrency: int
    repeat: int
    domain: str
    prompt_sha256: str | None
    marker_ok: bool | None
    foreign_markers: tuple[str, ...]
    answer_ok: bool | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int
    asked_tokens: int
    start_seconds: float
    ttft_seconds: float | None
    latency_seconds: float
    events: int
    event_gap_p50_seconds: float | None
    event_gap_p99_seconds: float | None
    event_gap_max_seconds: float | None
    lag_seconds: float | None
    output_sha256: str | None
    error: str = ""
    rate_per_second: float | None = None
    served_by: str = ""
    output: str | None = None

    def __post_init__(self) -> None:
        for name in _names(type(self)):
            value = getattr(self, name)
            if isinstance(value, float):
                object.__setattr__(self, name, rounded(value))

    @property
    def whole(self) -> bool:
        """Answered without an error; what such a request's tokens are counted by."""
        return not self.error

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens after the first over the time after it; None where there were none."""
        if self.ttft_seconds is None or self.completion_tokens < 2 or self.latency_seconds <= self.ttft_seconds:
            return None
        return (self.completion_tokens - 1) / (self.latency_seconds - self.ttft_seconds)

    @property
    def inter_token_seconds(self) -> float | None:
        """Mean time per token after the first."""
        rate = self.decode_tokens_per_second
        return None if rate is None else 1 / rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the requests of one batch say together. Tokens and rates count whole answers only; None where there are none.

    `tokens_per_second` is tokens over (wall time less the longest TTFT), the figure of the founding reports: how fast the engine decodes
    once all have begun. It means nothing where requests waited for a slot, nor in an open loop; there `wall_tokens_per_second` holds.
    """

    requests: int
    whole: int
    failed: int
    markers_checked: int
    markers_missing: int
    leaked: int
    completion_tokens: int
    prompt_tokens: int
    start_seconds: float
    wall_seconds: float
    longest_ttft_seconds: float | None
    tokens_per_second: float | None
    wall_tokens_per_second: float | None
    per_request_tokens_per_second: float | None
    ttft_p50_seconds: float | None
    ttft_p99_seconds: float | None
    inter_token_p50_seconds: float | None
    inter_token_p99_seconds: float | None
    latency_p50_seconds: float | None
    latency_p99_seconds: float | None
    lag_p99_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One batch: all requests of one mode, route, endpoint, sampling, context, level and repeat.

    The engine's own view was looked at `looks` times during the batch, None or 0 where it could not be: requests running and waiting, and
    `slots`, its effective limit. `accept_length` is over this batch alone: `generated_tokens` less each request's first, which its prefill
    makes, over `verify_calls`, by the difference of two reads of the engine's counters (`accept_length_from` is `counters`), or its
    lifetime average after a flush (`flushed`). `retracted_tokens` counts output tokens that were thrown away for want of memory.
    `told_by` names another tool whose own figures these are, so that they need not follow from requests; empty: they were measured here.
    """

    run_id: str
    batch: int
    mode: str
    route: str
    endpoint: str
    sampling: Sampling
    context_bucket: int
    loop: Loop
    concurrency: int
    repeat: int
    figures: Figures
    slots: int | None
    looks: int
    running_mean: float | None
    running_max: int | None
    queue_mean: float | None
    queue_max: int | None
    accept_length: float | None
    accept_length_from: str | None
    generated_tokens: int | None
    verify_calls: int | None
    retracted_tokens: int | None
    queue_measured: bool
    rate_per_second: float | None = None
    told_by: str = ""


Record = RequestRecord | BatchRecord


def line(record: Record) -> str:
    """A record as one line of records.jsonl, without its newline: ASCII, fields in their order, so that equal records are equal bytes."""
    kind = "request" if isinstance(record, RequestRecord) else "batch"
    document = {"kind": kind, **_plain(record)}
    if document.get("output", "") is None:
        del document["output"]
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def parse(text: str) -> Record:
    """The record of a line.

    Raises:
        ValueError: it is no record of this schema; the message says what is wrong, the caller knows which line it was.
    """
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("a record is a JSON object")
    kind = document.pop("kind", None)
    if kind not in ("request", "batch"):
        raise ValueError(f"kind is {kind!r}, neither 'request' nor 'batch'")
    try:
        return _request(document) if kind == "request" else _batch(document)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no {kind} record: {error}") from error


def _request(document: dict[str, Any]) -> RequestRecord:
    values = known_fields(RequestRecord, document)
    values["foreign_markers"] = tuple(values["foreign_markers"])
    return RequestRecord(**{**values, "sampling": Sampling(values["sampling"]), "loop": Loop(values["loop"])})


def _batch(document: dict[str, Any]) -> BatchRecord:
    values = known_fields(BatchRecord, document)
    values["figures"] = Figures(**known_fields(Figures, values["figures"]))
    return BatchRecord(**{**values, "sampling": Sampling(values["sampling"]), "loop": Loop(values["loop"])})


def known_fields(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document; ValueError names those that a dataclass does not have."""
    unknown = document.keys() - _names(kind)
    if unknown:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    return dict(document)


def _names(kind: type[Any]) -> dict[str, None]:
    """Of a dataclass, in their order. NB: `fields` and `asdict` cost more than all else, for thousands of records."""
    if kind not in _FIELDS:
        _FIELDS[kind] = dict.fromkeys(item.name for item in fields(kind))
    return _FIELDS[kind]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, RequestRecord | BatchRecord | Figures):
        return {name: _plain(getattr(value, name)) for name in _names(type(value))}
    return value


def rounded(value: float) -> float:
    """As every number of a record is rounded."""
    return round(value, _DECIMALS)
