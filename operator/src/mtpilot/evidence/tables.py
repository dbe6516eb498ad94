"""tables.json: everything that is said of a run, from its records alone.

A verifier makes the same bytes from the same records. So there is no clock, no path and no randomness here, and no arithmetic that machines
round in different ways (`statistics.py`). Intervals need draws: they are made when two packages are compared, not written down.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from mtpilot.api.inference_service import Mode

from .levels import Level, known, level_of, levels_of, rates_of
from .records import BatchRecord, Record, RequestRecord, Sampling
from .statistics import mean, spread

TABLES_SCHEMA = "mtpilot.dev/evidence-tables/v1"
_DECIMALS = 6


def tables_bytes(records: Sequence[Record], records_sha256: str, environment_sha256: str) -> bytes:
    """The content of tables.json.

    records: in the order of records.jsonl. records_sha256, environment_sha256: digests of both files, which pin count and order.
    """
    document = tables_of(records) | {"records_sha256": records_sha256, "environment_sha256": environment_sha256}
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def tables_of(records: Sequence[Record]) -> dict[str, Any]:
    """All tables as JSON values.

    `levels`: one row for each level, with mean, standard deviation, least and greatest of its repeats. `modes`: mtp over batch at each
    level that both have. `correctness`: markers, answers and finish reasons of each level. `outputs`: greedy answers to the same prompt,
    and whether they are the same text in both modes.
    """
    batches = [record for record in records if isinstance(record, BatchRecord)]
    requests = [record for record in records if isinstance(record, RequestRecord)]
    levels = levels_of(batches)
    return {
        "schema": TABLES_SCHEMA,
        "counts": {"records": len(records), "batches": len(batches), "requests": len(requests)},
        "levels": [_named(level) | _level_row(found) for level, found in levels.items()],
        "modes": _mode_rows(levels),
        "correctness": _correctness_rows(requests),
        "outputs": _output_rows(requests),
    }


def _named(level: Level) -> dict[str, Any]:
    return {
        "mode": level.mode,
        "route": level.route,
        "endpoint": level.endpoint,
        "sampling": level.sampling.value,
        "context_bucket": level.context_bucket,
        "loop": level.loop.value,
        "rate_per_second": level.rate_per_second,
        "concurrency": level.concurrency,
    }


def _level_row(batches: Sequence[BatchRecord]) -> dict[str, Any]:
    figures = [batch.figures for batch in batches]
    whole = sum(one.whole for one in figures)
    return {
        "repeats": len(batches),
        "requests": sum(one.requests for one in figures),
        "failed": sum(one.failed for one in figures),
        "tokens_per_second": _summary(rates_of(batches)),
        "wall_tokens_per_second": _summary(known(one.wall_tokens_per_second for one in figures)),
        "per_request_tokens_per_second": _summary(known(one.per_request_tokens_per_second for one in figures)),
        "ttft_p50_seconds": _summary(known(one.ttft_p50_seconds for one in figures)),
        "ttft_p99_seconds": _summary(known(one.ttft_p99_seconds for one in figures)),
        "inter_token_p50_seconds": _summary(known(one.inter_token_p50_seconds for one in figures)),
        "inter_token_p99_seconds": _summary(known(one.inter_token_p99_seconds for one in figures)),
        "latency_p50_seconds": _summary(known(one.latency_p50_seconds for one in figures)),
        "latency_p99_seconds": _summary(known(one.latency_p99_seconds for one in figures)),
        "lag_p99_seconds": _summary(known(one.lag_p99_seconds for one in figures)),
        "accept_length": _summary(known(batch.accept_length for batch in batches)),
        "accept_length_from": sorted({batch.accept_length_from for batch in batches if batch.accept_length_from}),
        "prompt_tokens_mean": _rounded(sum(one.prompt_tokens for one in figures) / whole) if whole else None,
        "completion_tokens_mean": _rounded(sum(one.completion_tokens for one in figures) / whole) if whole else None,
        "slots": sorted({batch.slots for batch in batches if batch.slots is not None}),
        "running_mean": _rounded(mean(known(batch.running_mean for batch in batches))),
        "running_max": max(known(batch.running_max for batch in batches), default=None),
        "queue_mean": _rounded(mean(known(batch.queue_mean for batch in batches))),
        "queue_max": max(known(batch.queue_max for batch in batches), default=None),
        "queue_measured": any(batch.queue_measured for batch in batches),
        "retracted_tokens": sum(batch.retracted_tokens or 0 for batch in batches),
    }


def _mode_rows(levels: dict[Level, list[BatchRecord]]) -> list[dict[str, Any]]:
    """mtp over batch: of the means, and of the extremes of the repeats, which is the widest that the ratio was seen."""
    rows = []
    for level, batch in levels.items():
        mtp, batch_rates = rates_of(levels.get(level.in_mode(Mode.MTP), [])), rates_of(batch)
        if level.mode != Mode.BATCH or not mtp or not batch_rates:
            continue
        middle, base = mean(mtp) or 0.0, mean(batch_rates) or 0.0
        named = {key: value for key, value in _named(level).items() if key != "mode"}
        rows.append(
            named
            | {
                "mtp_tokens_per_second": _rounded(middle),
                "batch_tokens_per_second": _rounded(base),
                "mtp_over_batch": _rounded(middle / base) if base else None,
                "lowest": _rounded(min(mtp) / max(batch_rates)) if max(batch_rates) else None,
                "highest": _rounded(max(mtp) / min(batch_rates)) if min(batch_rates) else None,
                "queue_measured": any(one.queue_measured for one in (*batch, *levels[level.in_mode(Mode.MTP)])),
            }
        )
    return rows


def _correctness_rows(requests: Iterable[RequestRecord]) -> list[dict[str, Any]]:
    groups: dict[Level, list[RequestRecord]] = defaultdict(list)
    for request in requests:
        groups[level_of(request)].append(request)
    return [_named(level) | _correctness(groups[level]) for level in sorted(groups, key=lambda level: level.order)]


def _correctness(requests: Sequence[RequestRecord]) -> dict[str, Any]:
    whole = [request for request in requests if request.whole]
    return {
        "requests": len(requests),
        "whole": len(whole),
        "markers_checked": sum(request.marker_ok is not None for request in whole),
        "markers_missing": sum(request.marker_ok is False for request in whole),
        "leaked": sum(bool(request.foreign_markers) for request in requests),
        "answers_checked": sum(request.answer_ok is not None for request in whole),
        "answers_missing": sum(request.answer_ok is False for request in whole),
        "finish_reasons": dict(Counter(request.finish_reason or "none" for request in requests)),
    }


def _output_rows(requests: Iterable[RequestRecord]) -> list[dict[str, Any]]:
    """Greedy answers to one prompt should be one text in both modes; rounding in other kernels may change some, from batch to batch too."""
    texts: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for request in requests:
        if request.whole and request.sampling is Sampling.GREEDY and request.prompt_sha256 and request.output_sha256:
            texts[request.route, request.endpoint, request.prompt_sha256][request.mode].add(request.output_sha256)
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (route, endpoint, _), by_mode in texts.items():
        if len(by_mode) > 1:
            outputs = list(by_mode.values())
            rows[route, endpoint]["prompts"] += 1
            rows[route, endpoint]["same"] += all(one == outputs[0] and len(one) == 1 for one in outputs)
    return [
        {"route": route, "endpoint": endpoint, "prompts_in_both_modes": found["prompts"], "same_output": found["same"]}
        for (route, endpoint), found in sorted(rows.items())
    ]


def _summary(values: Sequence[float]) -> dict[str, float | None] | None:
    """None where no repeat told it."""
    if not values:
        return None
    return {"mean": _rounded(mean(values)), "spread": _rounded(spread(values)), "least": min(values), "greatest": max(values)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)
