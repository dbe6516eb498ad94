"""From a request's JSON to what the engine needs: prompt length, marker, output limit.

The three generation APIs name these differently and have different defaults; past this file they are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sglang_sim.engine import Engine
from sglang_sim.settings import Settings
from sglang_sim.text import chat_prompt, count_tokens, find_marker

_COMPLETION_MAX_TOKENS = 16
_GENERATE_MAX_NEW_TOKENS = 128


class BadRequestError(ValueError):
    """A request that SGLang answers with 400; the message goes to the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request as the engine sees it; token counts."""

    rid: str
    prompt_tokens: int
    limit: int
    marker: str
    stream: bool
    include_usage: bool
    ignore_eos: bool


def _prompt(value: Any) -> tuple[int, str]:
    if isinstance(value, str):
        return count_tokens(value), find_marker(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        return _prompt(value[0])
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        return len(value), ""
    raise BadRequestError("the prompt must be one text or one list of token ids")


def _limit(value: Any, default: int, prompt_tokens: int, engine: Engine) -> int:
    if prompt_tokens > engine.max_input_tokens:
        raise BadRequestError(
            f"The input ({prompt_tokens} tokens) is longer than the model's context length ({engine.context_length} tokens)."
        )
    if value is None:
        return min(default, engine.context_length - prompt_tokens)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequestError("max_tokens must be at least 1")
    if prompt_tokens + value > min(engine.context_length, engine.kv_tokens):
        raise BadRequestError(
            f"Requested token count exceeds the model's maximum context length of {engine.context_length} tokens: "
            f"{prompt_tokens} in the prompt and {value} to generate."
        )
    return value


def _ask(
    body: Mapping[str, Any], engine: Engine, prompt: tuple[int, str], *, maximum: Any, default: int, parameters: Mapping[str, Any]
) -> Ask:
    if body.get("n") not in {None, 1}:
        raise BadRequestError("only n=1 is served")
    options = body.get("stream_options") or {}
    return Ask(
        rid=str(body.get("rid") or uuid.uuid4().hex),
        prompt_tokens=prompt[0],
        limit=_limit(maximum, default, prompt[0], engine),
        marker=prompt[1],
        stream=bool(body.get("stream")),
        include_usage=bool(options.get("include_usage")) or engine.arguments.stream_response_default_include_usage,
        ignore_eos=bool(parameters.get("ignore_eos")),
    )


def from_chat(body: Mapping[str, Any], engine: Engine, settings: Settings) -> Ask:
    """An Ask from the body of /v1/chat/completions."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, Mapping) for message in messages):
        raise BadRequestError("messages must be a list of messages")
    prompt = _prompt(chat_prompt(messages))
    maximum = body.get("max_completion_tokens", body.get("max_tokens"))
    return _ask(body, engine, prompt, maximum=maximum, default=settings.default_output_tokens, parameters=body)


def from_completion(body: Mapping[str, Any], engine: Engine) -> Ask:
    """An Ask from the body of /v1/completions."""
    prompt = _prompt(body.get("prompt"))
    return _ask(body, engine, prompt, maximum=body.get("max_tokens"), default=_COMPLETION_MAX_TOKENS, parameters=body)


def from_generate(body: Mapping[str, Any], engine: Engine) -> Ask:
    """An Ask from the body of /generate."""
    parameters = {} if body.get("sampling_params") is None else body["sampling_params"]
    if not isinstance(parameters, Mapping):
        raise BadRequestError("sampling_params must be an object")
    prompt = _prompt(body["text"] if body.get("text") is not None else body.get("input_ids"))
    maximum = parameters.get("max_new_tokens")
    return _ask(body, engine, prompt, maximum=maximum, default=_GENERATE_MAX_NEW_TOKENS, parameters=parameters)
