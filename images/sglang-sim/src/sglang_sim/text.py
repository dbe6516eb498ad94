"""Prompts in, filler out: token counts, request markers and the generated words.

Every generated token is one word of the same width, so any run of tokens is one slice of a precomputed string; a stream
costs no work per token. The marker of a request opens and closes its text: another request's marker in it is a leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_MARKER = re.compile(r"\[\[marker=[^\[\]\s]{1,200}\]\]|marker:[\w.-]{1,200}")
_ANSWER = re.compile(r"\[\[answer=[^\[\]\s]{1,200}\]\]")
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "inlet", "jetty")
_WIDTH = 6
_CHUNK = 20_000
_FILLER = "".join(" " + _WORDS[index * 7 % len(_WORDS)] for index in range(_CHUNK))

FILLER_TOKEN_ID = 23066
"""The token that `/generate` reports for filler."""


def find_marker(prompt: str) -> str:
    """The last `marker:XYZ` or `[[marker=XYZ]]` of a prompt as written, or the empty string; the last `[[answer=XYZ]]` goes with it."""
    found = ["", ""]
    for place, pattern in enumerate((_MARKER, _ANSWER)):
        for match in pattern.finditer(prompt):
            found[place] = match.group()
    return " ".join(filter(None, found))


def count_tokens(prompt: str) -> int:
    """Tokens of a text prompt: one a word, and at least one."""
    return max(1, len(prompt.split()))


def filler(start: int, end: int) -> str:
    """Tokens `start` to `end` of the filler, each a space and a word of five letters."""
    if end <= _CHUNK:
        return _FILLER[start * _WIDTH : end * _WIDTH]
    first, last = start % _CHUNK, start % _CHUNK + (end - start)
    return (_FILLER * (last // _CHUNK + 1))[first * _WIDTH : last * _WIDTH]


def words(marker: str, start: int, end: int, last: int) -> str:
    """Tokens `start` to `end` of an answer of `last` tokens: the marker is its first token, and its last when there are two or more."""
    if not marker:
        return filler(start, end)
    head = marker if start == 0 < end else ""
    tail = f" {marker}" if end >= last > 1 else ""
    return head + filler(start + (1 if head else 0), end - (1 if tail else 0)) + tail


def content_text(content: Any) -> str:
    """The text of a chat message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""


def chat_prompt(messages: Iterable[Mapping[str, Any]]) -> str:
    """All messages of a chat as one prompt."""
    return "\n".join(content_text(message.get("content")) for message in messages)
