"""Batches and answers made up, as an engine would send them."""

import json
from collections.abc import Sequence
from typing import Any

from mtpilot.bench.answers import Endpoint
from mtpilot.bench.markers import Row
from mtpilot.bench.planning import Batch, Settings, Target
from mtpilot.bench.recording import Exchanged, Numbered, Sent
from mtpilot.evidence.records import Loop, Sampling

TOKENS = 12


def target(mode: str = "mtp", *, slots: int | None = 24, route: str = "direct") -> Target:
    return Target(mode=mode, route=route, url="http://127.0.0.1:1", slots=slots)


def batch(concurrency: int = 4, *, of: Target | None = None, loop: Loop = Loop.CLOSED, **fields: Any) -> Batch:
    made = {"endpoint": Endpoint.CHAT, "sampling": Sampling.GREEDY, "context_bucket": 100, "repeat": 0, **fields}
    return Batch(target=of or target(), loop=loop, concurrency=concurrency, **made)


def numbered(of: Batch | None = None) -> Numbered:
    return Numbered(run_id="run", number=0, batch=of or batch())


SETTINGS = Settings(output_tokens=TOKENS)


def sent(row: Row, index: int) -> Sent:
    return Sent(index=index, row=row, domain="prose", prompt=f"prompt {index}", asked_tokens=TOKENS, body=b"{}")


def event(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def chat_bytes(pieces: Sequence[str], *, tokens: int = TOKENS, finish: str | None = "length", done: bool = True) -> bytes:
    events = [event({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}], "usage": None})]
    events += [event({"choices": [{"delta": {"content": piece}, "finish_reason": None}], "usage": None}) for piece in pieces]
    if finish is not None:
        events.append(event({"choices": [{"delta": {"content": ""}, "finish_reason": finish}], "usage": None}))
        events.append(event({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": tokens}}))
    return b"".join([*events, b"data: [DONE]\n\n" if done else b""])


def came(raw: bytes, *, reads: Sequence[tuple[float, int]] = (), status: int = 200, error: str = "") -> Exchanged:
    return Exchanged(
        due_seconds=1.0, sent_seconds=1.0, ended_seconds=3.0, status=status, raw=raw, reads=tuple(reads) or ((2.0, len(raw)),), error=error
    )
