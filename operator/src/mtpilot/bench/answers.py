"""From the bytes of a streamed answer to its text, counts and times: OpenAI chat, OpenAI completions, and SGLang's /generate.

All bytes are parsed once, after the end: while it lasts a stream costs its receiver a time and a length for each read, so that one process
can hold hundreds of them beside the engine.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Endpoint(StrEnum):
    """The API that is measured."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    GENERATE = "generate"


PATHS = {Endpoint.CHAT: "/v1/chat/completions", Endpoint.COMPLETIONS: "/v1/completions", Endpoint.GENERATE: "/generate"}
# A piece of text; the opening event of a chat carries an empty one.
TEXT = re.compile(rb'"(?:content|reasoning_content|text)": ?"[^"]')

Read = tuple[float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a stream brought. Token counts are None where the engine told none; `pieces` are the times of events with text, in seconds."""

    text: str = ""
    finish_reasons: tuple[str, ...] = ()
    ends: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    pieces: tuple[float, ...] = ()
    error: str = ""

    @property
    def finish_reason(self) -> str | None:
        return self.finish_reasons[0] if self.finish_reasons else None


def read_answer(raw: bytes, reads: Sequence[Read], endpoint: Endpoint, *, incremental: bool = False) -> Answer:
    """Parse the events in `raw`; never raises for bad bytes.

    reads: the instant of each read and the length of all that had come by then. incremental: whether an event of /generate carries
    only what is new (SGLang's --incremental-streaming-output), else the text so far.
    """
    events = _GenerateEvents(incremental=incremental) if endpoint is Endpoint.GENERATE else _OpenAIEvents()
    pieces: list[float] = []
    at, read = 0, 0
    for block in raw.split(b"\n\n"):
        at += len(block) + 2
        data = block.strip()
        if not data.startswith(b"data:"):
            continue
        if TEXT.search(data):
            while read < len(reads) - 1 and reads[read][1] < at:
                read += 1
            if reads:
                pieces.append(reads[read][0])
        events.add(data[5:].strip())
    return events.answer(tuple(pieces))


def trouble(answer: Answer, *, asked_tokens: int, whole_length: bool) -> str:
    """What is wrong with an answer, in plain words; empty where it is whole.

    whole_length: the request asked to go on past the text's end (`ignore_eos`), so that all tokens must be there.
    """
    if answer.error:
        return answer.error
    if len(answer.finish_reasons) != 1 or answer.ends != 1:
        return _wrong_end(answer)
    if answer.finish_reason not in ("length", "stop"):
        return f"finish reason {answer.finish_reason}"
    if answer.completion_tokens is None:
        return "the engine told no token count: stream_options.include_usage is needed"
    if answer.completion_tokens < asked_tokens and (whole_length or answer.finish_reason == "length"):
        return f"cut short: {answer.completion_tokens} of {asked_tokens} tokens"
    return "" if answer.text else "no text"


def _wrong_end(answer: Answer) -> str:
    if len(answer.finish_reasons) > 1 or answer.ends > 1:
        return f"answered more than once: {len(answer.finish_reasons)} finish reasons, {answer.ends} ends"
    return "the stream was cut: it has no " + ("[DONE]" if answer.finish_reasons else "finish reason")


class _OpenAIEvents:
    """Gathers chat and completions events, whose text is what is new."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._finish: list[str] = []
        self._usage: dict[str, Any] = {}
        self._ends = 0
        self._error = ""

    def add(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._ends += 1
            return
        event = _object(data)
        if event is None:
            self._error = self._error or f"not JSON: {data[:80]!r}"
            return
        if "error" in event or event.get("object") == "error":
            self._error = str(event.get("error") or event.get("message"))[:300]
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or choice
            self._text += [delta.get("reasoning_content") or "", delta.get("content") or delta.get("text") or ""]
            if choice.get("finish_reason"):
                self._finish.append(str(choice["finish_reason"]))
        self._usage = event.get("usage") or self._usage

    def answer(self, pieces: tuple[float, ...]) -> Answer:
        return Answer(
            text="".join(self._text),
            finish_reasons=tuple(self._finish),
            ends=self._ends,
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            completion_tokens=_count(self._usage.get("completion_tokens")),
            pieces=pieces,
            error=self._error,
        )


class _GenerateEvents:
    """Gathers /generate events; where each repeats the text so far, only the last is parsed."""

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self._last = b""
        self._text: list[str] = []
        self._ends = 0

    def add(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._ends += 1
            return
        self._last = data
        if self._incremental:
            self._text.append(str((_object(data) or {}).get("text") or ""))

    def answer(self, pieces: tuple[float, ...]) -> Answer:
        event = _object(self._last) if self._last else {}
        if event is None:
            return Answer(ends=self._ends, pieces=pieces, error=f"not JSON: {self._last[:80]!r}")
        about = event.get("meta_info") or {}
        reason = about.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, dict) else reason
        error = event.get("error")
        return Answer(
            text="".join(self._text) if self._incremental else str(event.get("text") or ""),
            finish_reasons=(str(kind),) if kind else (),
            ends=self._ends,
            prompt_tokens=_count(about.get("prompt_tokens")),
            completion_tokens=_count(about.get("completion_tokens")),
            pieces=pieces,
            error=str(error)[:300] if error else "",
        )


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
