"""JSONL of `python -m sglang.benchmark.serving --output-file` (SGLang 0.5.23): one line a run, its own figures, the whole /server_info.

It has no clock of single requests, so figures are the tool's own and cannot be made again; with `--output-details` the longest TTFT is
known, and so tokens over the wall time less it. Its accept_length is the server's average since its start, or since `--flush-cache`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Acceptance
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.figures import percentile
from mtpilot.evidence.records import BatchRecord, Figures, Loop, rounded
from mtpilot.evidence.server_info import arguments_of, mode_of, slots_of, without_secrets
from mtpilot.evidence.statistics import mean

from .assembling import Facts, Imported, InvalidImport, Part, Source, assembled, bucket_of

TOOL = "sglang.benchmark.serving"
_ENDPOINTS = {"sglang": "generate", "sglang-native": "generate"}
_MADE_UP = ("random-ids",)
_MILLISECONDS = 1000.0
_LIFETIME = "lifetime"


def read_sglang(sources: Sequence[Source], facts: Facts) -> Imported:
    """All lines of all files, one batch each.

    Raises:
        InvalidImport: a line is not of this tool; the message names file and line.
    """
    parts: list[Part] = []
    made_up = False
    lifetime = False
    for source in sources:
        for number, text in enumerate(source.content.decode("utf-8", "replace").split("\n"), 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
                parts.append(_part(row, source.mode, facts))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise InvalidImport(f"{source.name}: line {number} is none of {TOOL}: {why}") from error
            made_up = made_up or row.get("dataset_name") in _MADE_UP
            lifetime = lifetime or parts[-1].batch.accept_length is not None
    notes = ["accept lengths are averages since the server's start, unless each run was started with --flush-cache"] if lifetime else []
    if made_up:
        notes.append("prompts of random tokens: their acceptance is not that of text")
    acceptance = Acceptance.SYNTHETIC if made_up else Acceptance.SEMI_SYNTHETIC  # by default it generates beyond the end of the answer
    return assembled(TOOL, sources, parts, facts, acceptance=acceptance.value, warnings=notes)


def _part(row: Mapping[str, Any], mode: str | None, facts: Facts) -> Part:
    info = without_secrets(row.get("server_info") or {})
    mode = mode or (mode_of(info) if info else None)
    if mode is None:
        raise InvalidImport("it has no server_info: say the mode, as in mtp=FILE")
    engine = _engine(info, mode, facts)
    rate = float(row.get("request_rate") or math.inf)
    open_loop = math.isfinite(rate)
    figures = _figures(row)
    concurrency = 0 if open_loop else int(row.get("max_concurrency") or figures.requests)
    backend = str(row["backend"])
    spans = row.get("random_input_len") if str(row.get("dataset_name")).startswith("random") else None
    batch = BatchRecord(
        run_id="",
        batch=0,
        mode=mode,
        route="direct",
        endpoint=_ENDPOINTS.get(backend, "chat" if backend.endswith("-chat") else "completions"),
        sampling=facts.sampling,
        context_bucket=bucket_of(spans or figures.prompt_tokens / max(1, figures.whole)),
        loop=Loop.OPEN if open_loop else Loop.CLOSED,
        concurrency=concurrency,
        repeat=0,
        figures=figures,
        slots=engine.slots,
        looks=0,
        running_mean=_told(row, "concurrency"),
        running_max=None,
        queue_mean=None,
        queue_max=None,
        accept_length=_told(row, "accept_length") if mode == Mode.MTP else None,
        accept_length_from=_LIFETIME if mode == Mode.MTP and row.get("accept_length") else None,
        generated_tokens=None,
        verify_calls=None,
        retracted_tokens=None,
        queue_measured=not open_loop and engine.slots is not None and concurrency > engine.slots,
        rate_per_second=rate if open_loop else None,
        told_by=TOOL,
    )
    return Part(batch=batch, requests=(), engine=engine)


def _engine(info: Mapping[str, Any], mode: str, facts: Facts) -> Engine:
    asked = info.get("max_running_requests")
    return Engine(
        mode=mode,
        route="direct",
        url="",
        engine=facts.engine or (f"sglang {info['version']}" if info.get("version") else ""),
        model=facts.model or str(info.get("model_path") or ""),
        slots=facts.slots.get(mode) or slots_of(info),
        asked_slots=asked if isinstance(asked, int) else None,
        launch_command=info.get("launch_command"),
        arguments=arguments_of(info),
        server_info=dict(info),
        flags_sha256="",
        hardware_class=facts.hardware_class,
    )


def _figures(row: Mapping[str, Any]) -> Figures:
    """Of the tool's own sums; of its lists of requests, with `--output-details`, what the sums do not have."""
    wall, whole, tokens = float(row["duration"]), int(row["completed"]), int(row["total_output_tokens"])
    ttfts = [float(value) for value, error in _requests(row, "ttfts") if not error and value]
    failed = sum(bool(error) for error in row.get("errors") or ())
    longest = max(ttfts, default=None)
    decoding = wall - longest if longest is not None else 0.0
    step = _seconds(row, "mean_tpot_ms")
    return Figures(
        requests=whole + failed,
        whole=whole,
        failed=failed,
        markers_checked=0,
        markers_missing=0,
        leaked=0,
        completion_tokens=tokens,
        prompt_tokens=int(row["total_input_tokens"]),
        start_seconds=0.0,
        wall_seconds=rounded(wall),
        longest_ttft_seconds=None if longest is None else rounded(longest),
        tokens_per_second=rounded(tokens / decoding) if decoding > 0 else None,
        wall_tokens_per_second=rounded(tokens / wall) if wall > 0 and whole else None,
        per_request_tokens_per_second=_per_request(row) or (rounded(1 / step) if step else None),
        ttft_p50_seconds=percentile(ttfts, 50) or _seconds(row, "median_ttft_ms"),
        ttft_p99_seconds=percentile(ttfts, 99) or _seconds(row, "p99_ttft_ms"),
        inter_token_p50_seconds=_seconds(row, "median_tpot_ms"),
        inter_token_p99_seconds=_seconds(row, "p99_tpot_ms"),
        latency_p50_seconds=_seconds(row, "median_e2e_latency_ms"),
        latency_p99_seconds=_seconds(row, "p99_e2e_latency_ms"),
        lag_p99_seconds=None,
    )


def _per_request(row: Mapping[str, Any]) -> float | None:
    """Mean over requests of the tokens after the first over the time after it."""
    rates = [
        (tokens - 1) / sum(gaps)
        for (gaps, error), tokens in zip(_requests(row, "itls"), row.get("output_lens") or (), strict=False)
        if not error and tokens > 1 and gaps and sum(gaps) > 0
    ]
    found = mean(rates)
    return None if found is None else rounded(found)


def _requests(row: Mapping[str, Any], name: str) -> list[tuple[Any, str]]:
    """A list of the details with each request's error."""
    values = row.get(name) or []
    errors = row.get("errors") or [""] * len(values)
    return list(zip(values, errors, strict=False))


def _seconds(row: Mapping[str, Any], name: str) -> float | None:
    found = _told(row, name)
    return None if found is None else rounded(found / _MILLISECONDS)


def _told(row: Mapping[str, Any], name: str) -> float | None:
    found = row.get(name)
    return rounded(float(found)) if isinstance(found, int | float) and math.isfinite(found) and found > 0 else None
