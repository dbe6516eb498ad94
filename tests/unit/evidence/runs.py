"""A small run of both modes, as a benchmark would have recorded it, for tests to bend."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mtpilot.evidence.environment import Engine, Environment
from mtpilot.evidence.figures import figures_of
from mtpilot.evidence.records import BatchRecord, Loop, Record, RequestRecord, Sampling

LEVELS = (1, 4, 16)
REPEATS = 3
SLOTS = {"mtp": 24, "batch": 64}
SCALE = {"mtp": (120.0, 0.8), "batch": (100.0, 0.9)}
TOKENS = 100
NOISE = (0.99, 1.0, 1.01)


def rate(mode: str, concurrency: int) -> float:
    """tok/s of the replica that the run is made of."""
    scale, exponent = SCALE[mode]
    return float(scale * min(concurrency, SLOTS[mode]) ** exponent)


def engine(mode: str, **changes: Any) -> Engine:
    arguments: dict[str, Any] = {"model_path": "org/model", "max_running_requests": SLOTS[mode], "mem_fraction_static": 0.85, "tp_size": 4}
    if mode == "mtp":
        arguments |= {"speculative_algorithm": "EAGLE", "speculative_num_steps": 1, "speculative_num_draft_tokens": 2}
    return replace(
        Engine(
            mode=mode, route="direct", url="http://engine", engine="sglang 0.5.23", model="org/model", slots=SLOTS[mode],
            asked_slots=SLOTS[mode], launch_command=f"sglang serve org/model # {mode}", arguments=arguments,
            server_info={"version": "0.5.23"}, flags_sha256="a" * 64, hardware_class="gpu-x4", image="lmsysorg/sglang:v0.5.23",
        ),
        **changes,
    )  # fmt: skip


def request(batch: int, index: int, mode: str = "mtp", concurrency: int = 1, repeat: int = 0, **changes: Any) -> RequestRecord:
    seconds = TOKENS * concurrency / rate(mode, concurrency) / NOISE[repeat % len(NOISE)]
    prompt = hashlib.sha256(f"{concurrency} {index}".encode()).hexdigest()
    return replace(
        RequestRecord(
            run_id="run-1", batch=batch, index=index, mode=mode, route="direct", endpoint="chat", sampling=Sampling.GREEDY,
            context_bucket=500, loop=Loop.CLOSED, concurrency=concurrency, repeat=repeat, domain="code", prompt_sha256=prompt,
            marker_ok=True, foreign_markers=(), answer_ok=True, finish_reason="stop", prompt_tokens=500, completion_tokens=TOKENS,
            asked_tokens=TOKENS, start_seconds=10.0 * batch, ttft_seconds=0.1, latency_seconds=0.1 + seconds, events=TOKENS,
            event_gap_p50_seconds=0.01, event_gap_p99_seconds=0.02, event_gap_max_seconds=0.03, lag_seconds=0.0001,
            output_sha256=prompt,
        ),
        **changes,
    )  # fmt: skip


def batch_of(requests: Sequence[RequestRecord], **changes: Any) -> BatchRecord:
    """The batch that these requests make."""
    one = requests[0]
    mtp = one.mode == "mtp"
    return replace(
        BatchRecord(
            run_id=one.run_id, batch=one.batch, mode=one.mode, route=one.route, endpoint=one.endpoint, sampling=one.sampling,
            context_bucket=one.context_bucket, loop=one.loop, concurrency=one.concurrency, repeat=one.repeat, figures=figures_of(requests),
            slots=SLOTS[one.mode], looks=3, running_mean=float(one.concurrency), running_max=one.concurrency, queue_mean=0.0, queue_max=0,
            accept_length=1.8 if mtp else None, accept_length_from="counters" if mtp else None, generated_tokens=TOKENS * len(requests),
            verify_calls=50 * len(requests) if mtp else None, retracted_tokens=0, queue_measured=False, rate_per_second=one.rate_per_second,
        ),
        **changes,
    )  # fmt: skip


def records(
    levels: Sequence[int] = LEVELS, repeats: int = REPEATS, modes: Sequence[str] = ("mtp", "batch"), **changes: Any
) -> list[Record]:
    """Every level in every mode, as many requests as are in flight. changes: of each request."""

    def lines() -> Iterator[Record]:
        plan = [(mode, level, repeat) for mode in modes for level in levels for repeat in range(repeats)]
        for number, (mode, level, repeat) in enumerate(plan):
            requests = [request(number, index, mode, level, repeat, **changes) for index in range(level)]
            yield from requests
            yield batch_of(requests)

    return list(lines())


def environment(found: Sequence[Record], **changes: Any) -> Environment:
    """Of a run with these records."""
    batches = [record for record in found if isinstance(record, BatchRecord)]
    return replace(
        Environment(
            run_id="run-1", mtpilot_version="0.1.0", started_at="2026-11-20T09:00:00Z", finished_at="2026-11-20T09:30:00Z",
            acceptance="Natural", engines=tuple(engine(mode) for mode in dict.fromkeys(batch.mode for batch in batches)),
            plan={"seed": 1, "sampling": {"temperature": 0.7}}, batches=len(batches), requests=len(found) - len(batches),
        ),
        **changes,
    )  # fmt: skip
