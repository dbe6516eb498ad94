"""A request inside the engine: one row of the batch, where its tokens go, and the faults that mix rows up.

A row knows nothing about HTTP. Its sink turns token counts into events; the scheduler moves the counts.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Protocol


class Sink(Protocol):
    """Where a row's tokens go."""

    def emit(self, row: Row) -> None:
        """Tokens `row.sent` to `row.generated` are new; not called for the last ones."""

    def end(self, row: Row) -> None:
        """No more tokens: `row.finish_reason` is set, and tokens from `row.sent` on are new."""


class Row:
    """One request. Times are the event loop's; `progress` is the fractional token count behind `generated`."""

    __slots__ = (
        "admitted_at",
        "arrived_at",
        "cut",
        "finish_reason",
        "first_at",
        "generated",
        "ignore_eos",
        "last_at",
        "limit",
        "mark",
        "marker",
        "progress",
        "prompt_tokens",
        "rid",
        "sent",
        "sink",
        "stops",
        "streaming",
    )

    def __init__(self, *, rid: str, prompt_tokens: int, limit: int, marker: str, streaming: bool, ignore_eos: bool, sink: Sink) -> None:
        self.rid, self.prompt_tokens, self.limit, self.marker = rid, prompt_tokens, limit, marker
        self.streaming, self.ignore_eos, self.sink = streaming, ignore_eos, sink
        self.progress = self.mark = 0.0
        self.generated = self.sent = 0
        self.arrived_at = self.admitted_at = self.first_at = self.last_at = 0.0
        self.finish_reason: str | None = None
        self.stops = self.cut = False

    @property
    def kv_tokens(self) -> int:
        """KV tokens kept for the row: all it may come to, so that a running row is never retracted for want of memory."""
        return self.prompt_tokens + self.limit

    @property
    def label(self) -> str:
        """The value of the label is_streaming."""
        return "true" if self.streaming else "false"

    def verify_calls(self, accept_length: float) -> int:
        """Speculative verify steps behind the tokens (the first token comes from the prefill)."""
        return math.ceil((self.generated - 1) / accept_length) if self.generated > 1 else 0


def mix_up(kind: str | None, rows: list[Row], due: list[Row]) -> None:
    """Do what the row fault `kind` says: swap markers between rows, merge a neighbour's into each, or cut the due rows short."""
    if kind == "truncate":
        for row in due:
            row.cut = True
    elif kind == "swap" and len(rows) > 1:
        markers = [row.marker for row in rows]
        for row, marker in zip(rows, [*markers[1:], markers[0]], strict=True):
            row.marker = marker
    elif kind == "merge":
        for one, other in pairwise(rows):
            if other.marker not in one.marker:
                one.marker += " " + other.marker
