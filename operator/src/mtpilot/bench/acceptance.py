"""Accept length of one batch, and signs that it says nothing of real text.

SGLang's own averages are over a server's lifetime, its gauges over the last seconds, and both stand on after the batch. The difference of
two reads of the counters is of the batch alone: generated tokens over verify calls.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtpilot.api.inference_service import Mode
from mtpilot.evidence.records import BatchRecord

GENERATED, VERIFIES = "sglang:generation_tokens_total", "sglang:spec_verify_calls_total"
REQUESTS, RETRACTED = "sglang:num_requests_total", "sglang:num_retracted_output_tokens_total"
_NAMES = (GENERATED, VERIFIES, REQUESTS, RETRACTED)

# Counters that moved by more than this share beside the batch's own tokens belong to somebody else's requests.
_OTHERS_SHARE = 0.02
_AT_BOUND_SHARE = 0.01
_FEWEST_VERIFIES = 50
# Text that people or models write shrinks to about a third, code to a fifth; text that repeats itself to much less.
_REPETITIVE_RATIO = 8.0
_FEWEST_BYTES = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of an engine at one moment, over all its ranks; None: it has no such series."""

    generated_tokens: float | None = None
    verify_calls: float | None = None
    requests: float | None = None
    retracted_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a batch moved. accept_length is None without speculation, without counters, or where others' requests were counted too."""

    generated_tokens: int | None
    verify_calls: int | None
    retracted_tokens: int | None
    accept_length: float | None
    others: bool


def parse_counters(page: str) -> Counters:
    """The counters of a page of /metrics; series of one name are added up."""
    sums: dict[str, float] = {}
    for line in page.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in _NAMES:
            try:
                value = float(line.rsplit("}", 1)[-1].split()[0 if "}" in line else 1])
            except (ValueError, IndexError):
                continue
            if math.isfinite(value):
                sums[name] = sums.get(name, 0.0) + value
    return Counters(
        generated_tokens=sums.get(GENERATED),
        verify_calls=sums.get(VERIFIES),
        requests=sums.get(REQUESTS),
        retracted_tokens=sums.get(RETRACTED),
    )


def counted(before: Counters, after: Counters, *, tokens: int, requests: int) -> Counted:
    """Between two reads around a batch of so many tokens and requests. Counters that fell are a restart: then nothing is known."""
    generated = _moved(before.generated_tokens, after.generated_tokens)
    # NB: a series appears with its first value; a server that never retracted or verified has none before.
    verifies = None if after.verify_calls is None else _moved(before.verify_calls or 0.0, after.verify_calls)
    retracted = None if after.generated_tokens is None else _moved(before.retracted_tokens or 0.0, after.retracted_tokens or 0.0)
    others = generated is not None and abs(generated - tokens) > max(1.0, _OTHERS_SHARE * tokens)
    known = generated is not None and verifies is not None and verifies > 0 and not others
    return Counted(
        generated_tokens=generated,
        verify_calls=verifies,
        retracted_tokens=retracted,
        accept_length=accept_length(generated, requests, verifies) if known and generated is not None and verifies is not None else None,
        others=others,
    )


def accept_length(generated_tokens: int, requests: int, verify_calls: int) -> float:
    """Tokens per verify step, bonus token included; a request's first token comes from its prefill and no step."""
    return (generated_tokens - requests) / verify_calls


def _moved(before: float | None, after: float | None) -> int | None:
    return None if before is None or after is None or after < before else round(after - before)


def is_repetitive(texts: Sequence[str]) -> bool:
    """Whether outputs repeat themselves so much that drafts are accepted as they never are of real text."""
    ratios = []
    for text in texts:
        data = text.encode()
        if len(data) >= _FEWEST_BYTES:
            ratios.append(len(data) / len(zlib.compress(data, 9)))
    return bool(ratios) and sorted(ratios)[len(ratios) // 2] > _REPETITIVE_RATIO


def at_bound(record: BatchRecord, arguments: Mapping[str, object]) -> bool:
    """Whether every draft was accepted: the accept length is all drafted tokens and the bonus token."""
    drafted = arguments.get("speculative_num_draft_tokens")
    if record.mode != Mode.MTP or record.accept_length is None or not isinstance(drafted, int) or drafted < 2:
        return False
    return (record.verify_calls or 0) >= _FEWEST_VERIFIES and record.accept_length >= drafted * (1 - _AT_BOUND_SHARE)
