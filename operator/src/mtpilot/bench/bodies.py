"""The request of each endpoint."""

import json
from collections.abc import Mapping
from typing import Any

from mtpilot.evidence.records import Sampling

from .answers import Endpoint

SAMPLING: Mapping[Sampling, Mapping[str, float]] = {
    Sampling.GREEDY: {"temperature": 0.0},
    Sampling.SAMPLED: {"temperature": 0.7, "top_p": 0.95, "top_k": 20},
}


def body(endpoint: Endpoint, *, model: str, prompt: str, sampling: Sampling, output_tokens: int, whole_length: bool) -> bytes:
    """A streaming request. whole_length: go on past the text's end, so that all requests of a batch last equally long."""
    drawn = dict(SAMPLING[sampling])
    document: dict[str, Any]
    if endpoint is Endpoint.GENERATE:
        parameters = {**drawn, "max_new_tokens": output_tokens, "ignore_eos": whole_length}
        document = {"text": prompt, "sampling_params": parameters, "stream": True}
    else:
        asked = {"messages": [{"role": "user", "content": prompt}]} if endpoint is Endpoint.CHAT else {"prompt": prompt}
        document = {"model": model, **asked, **drawn, "max_tokens": output_tokens, "stream": True}
        document["stream_options"] = {"include_usage": True}
        if whole_length:
            document["ignore_eos"] = True
    return json.dumps(document, ensure_ascii=False).encode()
