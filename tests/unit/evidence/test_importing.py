"""What other load generators wrote, as records: their formats, and what they do not tell."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mtpilot.evidence.importing.aiperf import read_aiperf
from mtpilot.evidence.importing.assembling import Facts, InvalidImport, Source, bucket_of
from mtpilot.evidence.importing.sglang import read_sglang
from mtpilot.evidence.levels import tokens_per_second
from mtpilot.evidence.package import package_files
from mtpilot.evidence.records import BatchRecord, Loop, RequestRecord, Sampling
from mtpilot.evidence.verify import verify

FACTS = Facts(mtpilot_version="0.1.0")
INFO = {
    "model_path": "org/model", "tp_size": 4, "max_running_requests": 48, "speculative_algorithm": "EAGLE",
    "speculative_num_draft_tokens": 4, "api_key": "s3cret", "launch_command": "sglang serve --api-key s3cret", "version": "0.5.23",
    "internal_states": [{"effective_max_running_requests_per_dp": 48, "avg_spec_accept_length": 2.9, "api_key": "s3cret"}],
}  # fmt: skip


def serving(**changes: Any) -> dict[str, Any]:
    """One line of sglang.benchmark.serving: 8 requests of 1000 tokens in 10 s."""
    return {
        "tag": None, "backend": "sglang", "dataset_name": "random", "random_input_len": 1024, "request_rate": float("inf"),
        "max_concurrency": 4, "duration": 10.0, "completed": 8, "total_input_tokens": 8000, "total_output_tokens": 8000,
        "mean_tpot_ms": 5.0, "median_tpot_ms": 4.9, "p99_tpot_ms": 6.0, "median_ttft_ms": 100.0, "p99_ttft_ms": 400.0,
        "median_e2e_latency_ms": 5000.0, "p99_e2e_latency_ms": 5500.0, "concurrency": 3.9, "accept_length": 2.9, "server_info": INFO,
    } | changes  # fmt: skip


def sglang(*rows: dict[str, Any], mode: str | None = None, facts: Facts = FACTS):
    content = "\n".join(json.dumps(row) for row in rows).encode()
    return read_sglang([Source(name="serving.jsonl", content=content, mode=mode)], facts)


def batches(records: Sequence[Any]) -> list[BatchRecord]:
    return [record for record in records if isinstance(record, BatchRecord)]


def test_a_line_of_sglang_is_a_batch_with_the_tools_own_figures() -> None:
    found = sglang(serving(), serving(), serving(max_concurrency=64))
    first, again, high = batches(found.records)
    assert (first.mode, first.endpoint, first.loop, first.concurrency, first.context_bucket) == ("mtp", "generate", Loop.CLOSED, 4, 1024)
    assert (first.slots, first.accept_length, first.accept_length_from, first.told_by) == (48, 2.9, "lifetime", "sglang.benchmark.serving")
    assert (first.figures.wall_tokens_per_second, first.figures.tokens_per_second, first.figures.ttft_p99_seconds) == (800.0, None, 0.4)
    assert first.figures.per_request_tokens_per_second == 200.0
    assert tokens_per_second(first) == 800.0
    assert [one.repeat for one in (first, again, high)] == [0, 1, 0]
    assert (first.queue_measured, high.queue_measured) == (False, True)
    (engine,) = found.environment.engines
    assert (engine.engine, engine.model, engine.slots, engine.asked_slots) == ("sglang 0.5.23", "org/model", 48, 48)
    assert "s3cret" not in json.dumps(found.environment.document())
    assert found.environment.acceptance == "SemiSynthetic"
    whole = verify(package_files(found.environment, found.records))
    assert (whole.problems, whole.told_batches) == ((), 3)


def test_the_details_tell_the_longest_ttft_and_single_requests() -> None:
    details = {"ttfts": [0.5, 2.0, 9.0], "itls": [[0.1] * 10, [0.2] * 10, []], "output_lens": [11, 11, 0], "errors": ["", "", "HTTP 500"]}
    figures = batches(sglang(serving(completed=2, total_output_tokens=22, **details)).records)[0].figures
    assert (figures.requests, figures.whole, figures.failed) == (3, 2, 1)
    assert (figures.longest_ttft_seconds, figures.tokens_per_second) == (2.0, 2.75)
    assert figures.per_request_tokens_per_second == 7.5


def test_a_rate_is_an_open_loop_and_a_mode_may_be_told() -> None:
    row = serving(request_rate=3.5, dataset_name="random-ids", server_info=None, backend="sglang-oai-chat")
    with pytest.raises(InvalidImport, match=r"serving\.jsonl: line 1 is none of .*it has no server_info: say the mode"):
        sglang(row)
    found = sglang(row, mode="batch", facts=Facts(mtpilot_version="0", slots={"batch": 7}, sampling=Sampling.SAMPLED))
    (one,) = batches(found.records)
    assert (one.mode, one.loop, one.rate_per_second, one.concurrency) == ("batch", Loop.OPEN, 3.5, 0)
    assert (one.endpoint, one.slots, one.accept_length, one.sampling) == ("chat", 7, None, Sampling.SAMPLED)
    assert found.environment.acceptance == "Synthetic"


def test_an_engine_that_changed_between_lines_is_a_warning() -> None:
    found = sglang(serving(), serving(server_info=INFO | {"tp_size": 8}))
    assert any("was not the same throughout: arguments.tp_size: 4 and 8" in text for text in found.environment.warnings)


@pytest.mark.parametrize("row", [{"a": 1}, serving(duration="x"), [1]])
def test_another_file_is_refused_by_its_line(row: Any) -> None:
    with pytest.raises(InvalidImport, match=r"serving\.jsonl: line 1 is none of sglang\.benchmark\.serving"):
        sglang(row)


def request(number: int, start: float, **changes: Any) -> dict[str, Any]:
    """A line of profile_export.jsonl, `start` seconds after the first."""
    begun = 1_759_813_207_000_000_000 + round(start * 1e9)
    metrics: dict[str, Any] = {
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "time_to_first_token": {"value": 250.0, "unit": "ms"},
        "request_latency": {"value": 1250.0, "unit": "ms"},
        "output_sequence_length": {"value": 11, "unit": "tokens"},
        "inter_chunk_latency": {"value": [100.0] * 10, "unit": "ms"},
    }
    about = {
        "session_num": number, "request_start_ns": begun, "request_end_ns": begun + 1_250_000_000, "benchmark_phase": "profiling",
        "was_cancelled": False,
    }  # fmt: skip
    return {"metadata": about, "metrics": metrics, "error": None} | changes


SUMMARY: dict[str, Any] = {
    "start_time": "2025-10-07T05:00:00.5",
    "end_time": "2025-10-07T05:01:00Z",
    "input_config": {"endpoint": {"model_names": ["org/model"], "type": "chat"}, "loadgen": {"concurrency": 2}},
}


def aiperf(rows: Sequence[dict[str, Any]], about: dict[str, Any] = SUMMARY, mode: str | None = "mtp"):
    requests = Source(name="c2/profile_export.jsonl", content="\n".join(map(json.dumps, rows)).encode(), mode=mode)
    return read_aiperf([(requests, Source(name="c2/profile_export_aiperf.json", content=json.dumps(about).encode()))], FACTS)


def test_a_run_of_aiperf_is_a_batch_with_its_requests() -> None:
    warm_up = request(9, -5.0)
    warm_up["metadata"]["benchmark_phase"] = "warmup"
    failed = request(
        2, 1.0, metrics={"error_isl": {"value": 550, "unit": "tokens"}}, error={"code": 499, "type": "Cancelled", "message": "late"}
    )
    found = aiperf([request(1, 0.75), request(0, 0.0), failed, warm_up])
    lines = [record for record in found.records if isinstance(record, RequestRecord)]
    assert [(one.index, one.start_seconds, one.error) for one in lines] == [(0, 0.0, ""), (1, 0.75, ""), (2, 1.0, "Cancelled: late")]
    assert (lines[0].ttft_seconds, lines[0].latency_seconds, lines[0].events, lines[0].event_gap_p50_seconds) == (0.25, 1.25, 11, 0.1)
    (batch,) = batches(found.records)
    assert (batch.concurrency, batch.context_bucket, batch.slots, batch.told_by) == (2, 512, None, "")
    assert (batch.figures.completion_tokens, batch.figures.wall_seconds, batch.figures.per_request_tokens_per_second) == (22, 2.25, 10.0)
    assert (found.environment.started_at, found.environment.finished_at) == ("2025-10-07T05:00:00.5Z", "2025-10-07T05:01:00Z")
    assert found.environment.engines[0].model == "org/model"
    assert verify(package_files(found.environment, found.records)).problems == ()


@pytest.mark.parametrize(
    ("about", "load"),
    [
        ({"input_config": {"loadgen": {"request_rate": 4}}}, (Loop.OPEN, 0, 4.0)),
        ({"input_config": {"models": ["m"], "phases": [{"name": "profiling", "concurrency": 8}]}}, (Loop.CLOSED, 8, None)),
        ({"input_config": {"phases": []}, "run_info": {"variation_values": {"phases.profiling.concurrency": 40}}}, (Loop.CLOSED, 40, None)),
    ],
)
def test_older_and_newer_exports_tell_the_load(about: dict[str, Any], load: tuple[Any, ...]) -> None:
    (batch,) = batches(aiperf([request(0, 0.0)], about).records)
    assert (batch.loop, batch.concurrency, batch.rate_per_second) == load


@pytest.mark.parametrize(
    ("rows", "about", "mode", "words"),
    [
        ([request(0, 0.0)], SUMMARY, None, "AIPerf does not know the engine's mode"),
        ([request(0, 0.0)], {"input_config": {}}, "mtp", "it tells neither concurrency nor request rate"),
        ([request(0, 0.0)], {}, "mtp", "'input_config' is missing"),
        ([{"metadata": {}}], SUMMARY, "mtp", "c2/profile_export.jsonl: line 1 is no request of AIPerf"),
        ([], SUMMARY, "mtp", "has no request of the phase profiling"),
        ([request(0, 0.0, metrics={"request_latency": {"value": 1, "unit": "furlongs"}})], SUMMARY, "mtp", "'furlongs' is no unit of time"),
    ],
)
def test_an_export_that_does_not_tell_enough_is_refused(rows: Any, about: Any, mode: Any, words: str) -> None:
    with pytest.raises(InvalidImport) as refused:
        aiperf(rows, about, mode)
    assert words in str(refused.value)


def test_lengths_of_one_plan_fall_into_one_bucket() -> None:
    assert [bucket_of(tokens) for tokens in (0, 1, 500, 512, 550, 720, 730, 1024)] == [1, 1, 512, 512, 512, 512, 1024, 1024]
