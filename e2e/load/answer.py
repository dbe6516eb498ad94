"""From the bytes of one HTTP exchange to a verdict: was the request answered once, in full, with its own marker?

All bytes are read once, at the end: an open stream costs its receiver nothing but a buffer, which is what lets one
process hold hundreds of streams beside the servers that it loads.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from e2e.load.result import Outcome

FIRST_TOKEN = re.compile(rb'"content": ?"[^"]')
"""Matches a stream from the first piece of text on; the opening event carries an empty content."""
END_OF_CHUNKS = b"\r\n0\r\n\r\n"
_MARKER = re.compile(r"\[\[marker=([^\[\]\s]+)\]\]")


def marker_text(marker: str) -> str:
    """A marker as it stands in prompts and answers."""
    return f"[[marker={marker}]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one exchange brought. `status` is 0 without a response; token counts are None where the engine gave none."""

    status: int
    headers: dict[str, str]
    text: str = ""
    whole: bool = False
    done_events: int = 0
    finish_reasons: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    completion_tokens: int | None = None
    error: str = ""


def _dechunk(body: bytes) -> tuple[bytes, bool]:
    """The payload of a chunked body, and whether its closing chunk arrived."""
    parts: list[bytes] = []
    at = 0
    while True:
        line_end = body.find(b"\r\n", at)
        if line_end < 0:
            return b"".join(parts), False
        try:
            size = int(body[at:line_end].split(b";")[0], 16)
        except ValueError:
            return b"".join(parts), False
        if size == 0:
            return b"".join(parts), True
        parts.append(body[line_end + 2 : line_end + 2 + size])
        at = line_end + 2 + size + 2


def _head(raw: bytes) -> tuple[int, dict[str, str]]:
    lines = raw.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return status, headers


def _body(raw: bytes, headers: dict[str, str]) -> tuple[bytes, bool]:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _dechunk(raw)
    length = headers.get("content-length", "")
    return raw, not length.isdigit() or len(raw) >= int(length)


class _Events:
    """Gathers the events of one stream."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.finish: list[str] = []
        self.ids: set[str] = set()
        self.tokens: int | None = None
        self.done = 0
        self.error = ""

    def add(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.done += 1
            return
        try:
            event: dict[str, Any] = json.loads(data)
        except ValueError:
            self.error = f"not JSON: {data[:80]!r}"
            return
        if "error" in event:
            self.error = str(event["error"])[:300]
        if event.get("id"):
            self.ids.add(str(event["id"]))
        for choice in event.get("choices") or ():
            self.text.append((choice.get("delta") or {}).get("content") or "")
            if choice.get("finish_reason"):
                self.finish.append(str(choice["finish_reason"]))
        usage = event.get("usage")
        if usage:
            self.tokens = int(usage["completion_tokens"])


def read_answer(raw: bytes) -> Answer:
    """Parse a whole HTTP/1.1 response with a stream of server-sent events in it; never raises for bad bytes."""
    head, separator, rest = raw.partition(b"\r\n\r\n")
    if not separator:
        return Answer(status=0, headers={}, error="connection closed before a response")
    status, headers = _head(head)
    body, whole = _body(rest, headers)
    if status != 200:
        return Answer(status=status, headers=headers, whole=whole, error=f"HTTP {status}: {body[:200].decode('utf-8', 'replace').strip()}")
    events = _Events()
    for block in body.split(b"\n\n"):
        line = block.strip()
        if line.startswith(b"data:"):
            events.add(line[5:].strip())
    return Answer(
        status=status,
        headers=headers,
        text="".join(events.text),
        whole=whole,
        done_events=events.done,
        finish_reasons=tuple(events.finish),
        ids=tuple(sorted(events.ids)),
        completion_tokens=events.tokens,
        error=events.error,
    )


def foreign_markers(text: str, marker: str) -> list[str]:
    """Markers in an answer that are not its own."""
    return sorted(set(_MARKER.findall(text)) - {marker})


def judge(answer: Answer, *, marker: str, output_tokens: int, words_are_tokens: bool = True) -> tuple[Outcome, str]:
    """The outcome and, unless completed, what is wrong in plain words.

    `words_are_tokens`: the simulator writes one word a token, so that a lost or repeated piece of text shows in the count.
    """
    leaked = foreign_markers(answer.text, marker)
    if leaked:
        return Outcome.LEAKED, f"marker of another request: {', '.join(leaked[:3])}"
    if answer.status != 200 or answer.error:
        return Outcome.FAILED, answer.error or f"HTTP {answer.status}"
    if len(answer.ids) > 1 or answer.done_events > 1 or len(answer.finish_reasons) > 1:
        return (
            Outcome.FAILED,
            f"answered more than once: ids {len(answer.ids)}, [DONE] {answer.done_events}, finish {len(answer.finish_reasons)}",
        )
    problems = []
    if not answer.whole:
        problems.append("stream was cut")
    if answer.done_events != 1:
        problems.append("no [DONE]")
    if not answer.finish_reasons:
        problems.append("no finish_reason")
    if answer.completion_tokens != output_tokens:
        problems.append(f"{answer.completion_tokens} of {output_tokens} tokens")
    if words_are_tokens and len(answer.text.split()) != output_tokens:
        problems.append(f"{len(answer.text.split())} of {output_tokens} words")
    if marker_text(marker) not in answer.text:
        problems.append("own marker missing")
    return (Outcome.INCOMPLETE, ", ".join(problems)) if problems else (Outcome.COMPLETED, "")
