"""The wording of answers: OpenAI chat, OpenAI completions and SGLang's own /generate, streamed and whole.

The constant parts of an event are encoded once per request; an event then is three byte strings put together.
"""

from __future__ import annotations

import json
import time
from typing import Any

from sglang_sim.engine import Engine
from sglang_sim.requests import Ask
from sglang_sim.rows import Row
from sglang_sim.text import FILLER_TOKEN_ID, words

_DONE = b"data: [DONE]\n\n"


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def _text(row: Row, start: int) -> str:
    return words(row.marker, start, row.generated, row.limit)


def _usage(row: Row) -> dict[str, Any]:
    return {
        "prompt_tokens": row.prompt_tokens,
        "total_tokens": row.prompt_tokens + row.generated,
        "completion_tokens": row.generated,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


class OpenAIFrames:
    """Events and bodies of /v1/chat/completions (`chat`) and /v1/completions."""

    def __init__(self, ask: Ask, engine: Engine, *, chat: bool) -> None:
        self._ask, self._chat = ask, chat
        kind = ("chat.completion" if chat else "text_completion", "chat.completion.chunk" if chat else "text_completion")
        self._whole: dict[str, Any] = {"id": ask.rid, "object": kind[0], "created": int(time.time()), "model": engine.served_model_name}
        self._part = {**self._whole, "object": kind[1]}
        head, tail = json.dumps({**self._part, "choices": [self._choice("\0", None)], "usage": None}, separators=(",", ":")).split(
            "\\u0000"
        )
        self._head, self._tail = b"data: " + head.encode(), tail.encode() + b"\n\n"

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        content: dict[str, Any] = {"delta": {"content": text}} if self._chat else {"text": text}
        return {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason, "matched_stop": None}

    def delta(self, row: Row) -> bytes:
        text = json.dumps(_text(row, row.sent))[1:-1].encode()
        event = b"%b%b%b" % (self._head, text, self._tail)
        return self._role() + event if self._chat and row.sent == 0 else event

    def _role(self) -> bytes:
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None, "matched_stop": None}
        return _event({**self._part, "choices": [choice], "usage": None})

    def last(self, row: Row) -> bytes:
        parts = [self.delta(row)] if row.generated > row.sent else []
        parts.append(_event({**self._part, "choices": [self._choice("", row.finish_reason)], "usage": None}))
        if self._ask.include_usage:
            parts.append(_event({**self._part, "choices": [], "usage": _usage(row)}))
        return b"".join([*parts, _DONE])

    def whole(self, row: Row) -> dict[str, Any]:
        """The body of an answer that was not streamed."""
        choice = self._choice("", row.finish_reason)
        text = _text(row, 0)
        if self._chat:
            del choice["delta"]
            choice["message"] = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        else:
            choice["text"] = text
        return {**self._whole, "choices": [choice], "usage": _usage(row), "metadata": {"weight_version": "default"}}


class GenerateFrames:
    """Events and bodies of /generate: the text so far in each event, or only what is new with --incremental-streaming-output."""

    def __init__(self, engine: Engine, accept_length: float) -> None:
        self._engine, self._accept_length = engine, accept_length
        self._incremental: bool = engine.arguments.incremental_streaming_output

    def delta(self, row: Row) -> bytes:
        return _event(self._document(row, row.sent if self._incremental else 0))

    def last(self, row: Row) -> bytes:
        return _event(self._document(row, row.sent if self._incremental else 0)) + _DONE

    def whole(self, row: Row) -> dict[str, Any]:
        """The body of an answer that was not streamed."""
        return self._document(row, 0)

    def _document(self, row: Row, start: int) -> dict[str, Any]:
        reason: dict[str, Any] | None = None
        if row.finish_reason == "length":
            reason = {"type": "length", "length": row.generated}
        elif row.finish_reason == "stop":
            reason = {"type": "stop", "matched": FILLER_TOKEN_ID}
        elif row.finish_reason is not None:
            reason = {"type": "abort", "message": "Aborted"}
        meta: dict[str, Any] = {
            "id": row.rid,
            "finish_reason": reason,
            "prompt_tokens": row.prompt_tokens,
            "weight_version": "default",
            "total_retractions": 0,
            "completion_tokens": row.generated,
            "cached_tokens": 0,
        }
        if self._engine.algorithm is not None:
            meta.update(self._speculative(row))
        if reason is not None:
            meta["e2e_latency"] = max(0.0, row.last_at - row.arrived_at)
        return {"text": _text(row, start), "output_ids": [FILLER_TOKEN_ID] * (row.generated - start), "meta_info": meta}

    def _speculative(self, row: Row) -> dict[str, Any]:
        calls = row.verify_calls(self._accept_length)
        proposed = calls * max(1, self._engine.num_draft_tokens - 1)
        accepted = max(0, row.generated - 1 - calls)
        return {
            "spec_accept_rate": accepted / proposed if proposed else 0.0,
            "spec_accept_length": row.generated / calls if calls else 0.0,
            "spec_num_correct_drafts": accepted,
            "spec_num_proposed_drafts": proposed,
            "spec_verify_ct": calls,
            "spec_accepted_drafts": accepted,
            "spec_proposed_drafts": proposed,
        }
