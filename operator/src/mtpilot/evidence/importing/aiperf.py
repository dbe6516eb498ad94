"""Exports of `aiperf profile`: profile_export.jsonl, one line a request, and profile_export_aiperf.json, which tells the load.

Every request has its clock, so all figures are made from the requests, by the same rules as ours. AIPerf sees no slots, no queue and no
accept length of the engine, and keeps no digest of an answer in these files.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mtpilot.api.throughput_profile import Acceptance
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.figures import figures_of, percentile
from mtpilot.evidence.records import BatchRecord, Loop, RequestRecord

from .assembling import Facts, Imported, InvalidImport, Part, Source, assembled, bucket_of

TOOL = "AIPerf"
REQUESTS, SUMMARY = "profile_export.jsonl", "profile_export_aiperf.json"
_NANOSECONDS = 1e9
_UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PHASE = "profiling"


def read_aiperf(runs: Sequence[tuple[Source, Source]], facts: Facts) -> Imported:
    """One batch for each run, given as its requests and its summary.

    Raises:
        InvalidImport: a file is not of this tool, or does not tell the load; the message names it.
    """
    parts, times = [], []
    for requests, summary in runs:
        try:
            about = json.loads(summary.content)
            parts.append(_part(list(_lines(requests)), about, requests.mode, facts))
        except InvalidImport:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise InvalidImport(f"{summary.name}: this is no run of {TOOL}: {why}") from error
        times.append((str(about.get("start_time") or ""), str(about.get("end_time") or "")))
    if not times:
        raise InvalidImport("no run is given")
    return assembled(
        TOOL,
        [source for run in runs for source in run],
        parts,
        facts,
        acceptance=Acceptance.SEMI_SYNTHETIC.value,
        started_at=_zoned(min(begun for begun, _ in times)),
        finished_at=_zoned(max(ended for _, ended in times)) or None,
        warnings=("acceptance is taken to be SemiSynthetic; --acceptance says otherwise",) if facts.acceptance is None else (),
    )


def _lines(source: Source) -> Iterator[Mapping[str, Any]]:
    """Requests of the profiling phase, by their start."""
    found = []
    for number, text in enumerate(source.content.decode("utf-8", "replace").split("\n"), 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            if row["metadata"].get("benchmark_phase", _PHASE) == _PHASE:
                found.append((int(row["metadata"]["request_start_ns"]), number, row))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidImport(f"{source.name}: line {number} is no request of {TOOL}: {error}") from error
    if not found:
        raise InvalidImport(f"{source.name} has no request of the phase {_PHASE}")
    yield from (row for _, _, row in sorted(found, key=lambda item: item[:2]))


def _part(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any], mode: str | None, facts: Facts) -> Part:
    if mode is None:
        raise InvalidImport(f"{TOOL} does not know the engine's mode: say it, as in mtp=FOLDER or batch=FOLDER")
    config = about["input_config"]
    loop, concurrency, rate = _load(about, config)
    prompts = [tokens for row in rows if (tokens := _count(row, "input_sequence_length")) is not None]
    shared: dict[str, Any] = {
        "run_id": "",
        "batch": 0,
        "mode": mode,
        "route": "direct",
        "endpoint": _endpoint(config),
        "sampling": facts.sampling,
        "context_bucket": bucket_of(sum(prompts) / len(prompts)) if prompts else 1,
        "loop": loop,
        "concurrency": concurrency,
        "repeat": 0,
        "rate_per_second": rate,
    }
    first = int(rows[0]["metadata"]["request_start_ns"])
    requests = tuple(_request(row, index, first, shared) for index, row in enumerate(rows))
    slots = facts.slots.get(mode)
    batch = BatchRecord(
        **shared,
        figures=figures_of(requests),
        slots=slots,
        looks=0,
        running_mean=None,
        running_max=None,
        queue_mean=None,
        queue_max=None,
        accept_length=None,
        accept_length_from=None,
        generated_tokens=None,
        verify_calls=None,
        retracted_tokens=None,
        queue_measured=loop is Loop.CLOSED and slots is not None and concurrency > slots,
    )
    return Part(batch=batch, requests=requests, engine=_engine(config, mode, facts))


def _load(about: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Loop, int, float | None]:
    """A rate makes an open loop, else the number of clients counts. Older exports have `loadgen`, newer ones a list of phases."""
    phases = config.get("phases")
    phase = next((one for one in phases if one.get("name") == _PHASE), {}) if isinstance(phases, list) else (phases or {}).get(_PHASE) or {}
    swept = (about.get("run_info") or {}).get("variation_values") or {}
    told = {**(config.get("loadgen") or {}), **phase}
    rate = swept.get(f"phases.{_PHASE}.rate") or told.get("request_rate") or told.get("rate")
    if rate:
        return Loop.OPEN, 0, float(rate)
    concurrency = swept.get(f"phases.{_PHASE}.concurrency") or told.get("concurrency")
    if not concurrency:
        raise ValueError("it tells neither concurrency nor request rate")
    return Loop.CLOSED, int(concurrency), None


def _request(row: Mapping[str, Any], index: int, first_ns: int, shared: Mapping[str, Any]) -> RequestRecord:
    about, error = row["metadata"], row.get("error")
    start, end = int(about["request_start_ns"]), int(about["request_end_ns"])
    gaps = [gap for gap in _list(row, "inter_chunk_latency") if math.isfinite(gap)]
    tokens = _count(row, "output_sequence_length")
    latency = _seconds(row, "request_latency")
    return RequestRecord(
        **shared,
        index=index,
        domain="",
        prompt_sha256=None,
        marker_ok=None,
        foreign_markers=(),
        answer_ok=None,
        finish_reason=None,
        prompt_tokens=_count(row, "input_sequence_length"),
        completion_tokens=(tokens if tokens is not None else _count(row, "output_token_count")) or 0,
        asked_tokens=0,
        start_seconds=(start - first_ns) / _NANOSECONDS,
        ttft_seconds=_seconds(row, "time_to_first_token"),
        latency_seconds=latency if latency is not None else (end - start) / _NANOSECONDS,
        events=len(gaps) + 1 if gaps else 0,
        event_gap_p50_seconds=percentile(gaps, 50),
        event_gap_p99_seconds=percentile(gaps, 99),
        event_gap_max_seconds=max(gaps, default=None),
        lag_seconds=None,
        output_sha256=None,
        error=_error(error, cancelled=bool(about.get("was_cancelled"))),
    )


def _engine(config: Mapping[str, Any], mode: str, facts: Facts) -> Engine:
    models = (config.get("endpoint") or {}).get("model_names") or config.get("models") or []
    first = models[0] if isinstance(models, list) and models else ""
    return Engine(
        mode=mode,
        route="direct",
        url="",
        engine=facts.engine or "",
        model=facts.model or str(first.get("name", "") if isinstance(first, dict) else first),
        slots=facts.slots.get(mode),
        asked_slots=None,
        launch_command=None,
        arguments={},
        server_info={},
        flags_sha256="",
        hardware_class=facts.hardware_class,
    )


def _endpoint(config: Mapping[str, Any]) -> str:
    return str((config.get("endpoint") or {}).get("type") or "chat")


def _error(error: Any, *, cancelled: bool) -> str:
    if isinstance(error, Mapping):
        return f"{error.get('type') or error.get('code')}: {error.get('message')}"
    return str(error) if error else "cancelled" if cancelled else ""


def _metric(row: Mapping[str, Any], name: str) -> tuple[Any, str] | None:
    found = (row.get("metrics") or {}).get(name)
    return (found.get("value"), str(found.get("unit"))) if isinstance(found, Mapping) else None


def _count(row: Mapping[str, Any], name: str) -> int | None:
    found = _metric(row, name)
    return None if found is None or found[0] is None else round(float(found[0]))


def _seconds(row: Mapping[str, Any], name: str) -> float | None:
    found = _metric(row, name)
    return None if found is None or found[0] is None else float(found[0]) * _unit(found[1])


def _list(row: Mapping[str, Any], name: str) -> list[float]:
    found = _metric(row, name)
    return [float(value) * _unit(found[1]) for value in found[0]] if found is not None and isinstance(found[0], list) else []


def _unit(unit: str) -> float:
    if unit not in _UNITS:
        raise ValueError(f"{unit!r} is no unit of time")
    return _UNITS[unit]


def _zoned(time: str) -> str:
    """AIPerf writes UTC, with or without saying so."""
    return time if not time or time.endswith("Z") or "+" in time else f"{time}Z"
