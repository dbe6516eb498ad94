"""When the simulator's metrics change: the moments at which SGLang's scheduler and tokenizer report.

The real gauges are not live. They move with every 40th decode step (--decode-log-interval), at a prefill, and when the
engine falls idle; a controller that expects more would pass its tests against a friendlier stand-in and fail on the engine.
Counters of finished requests are exact.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from sglang_sim.engine import Engine
from sglang_sim.metrics import Registry

_STARTUP_GB = 21.2


@dataclass(slots=True, kw_only=True)
class Load:
    """What the scheduler knows of itself at one moment; tokens are KV tokens."""

    running: int = 0
    waiting: int = 0
    used_tokens: int = 0
    sequence_tokens: int = 0
    accept_length: float = 0.0
    generated_tokens: float = 0.0
    prefill_tokens: int = 0
    decode_steps: int = 0
    prefill_batches: int = 0


class Telemetry:
    """Feeds a Registry from the scheduler's events."""

    def __init__(self, engine: Engine, *, pid: int, clock: float) -> None:
        labels: Mapping[str, object] = engine.arguments.extra_metric_labels or {}
        self.registry = Registry(
            model_name=engine.served_model_name, extra_labels={key: str(value) for key, value in labels.items()}, pid=pid
        )
        self.frozen = False
        self.gen_throughput = 0.0
        self._engine = engine
        self._last_tokens = 0.0
        self._last_report = clock
        self._idle_since: float | None = clock
        self._constants()

    def _constants(self) -> None:
        engine, registry = self._engine, self.registry
        constants = {
            "max_total_num_tokens": engine.kv_tokens,
            "page_size": 1,
            "num_pages": engine.kv_tokens,
            "context_len": engine.context_length,
            "startup_available_gpu_memory_gb": _STARTUP_GB,
            "spec_num_steps": engine.num_steps,
            "spec_num_draft_tokens": engine.num_draft_tokens,
            "new_token_ratio": 0.7,
            "kv_available_tokens": engine.kv_tokens,
        }
        for name, value in constants.items():
            registry[name].set(value)

    def started(self, load_seconds: float, total_seconds: float) -> None:
        """The start-up gauges, once the server answers."""
        phases = {"load_weight": load_seconds, "kv_cache_allocation": 0.1, "scheduler_e2e": load_seconds, "tokenizer_e2e": total_seconds}
        for phase, seconds in phases.items():
            self.registry["startup_time_seconds"].set(seconds, phase)

    def report(self, load: Load, now: float) -> None:
        """The scheduler's report of a running batch: every --decode-log-interval decode steps and at a prefill."""
        self._counters(load, now)
        if self.frozen:
            return
        elapsed = now - self._last_report
        if elapsed > 0:
            self.gen_throughput = (load.generated_tokens - self._last_tokens) / elapsed
        self._last_tokens, self._last_report = load.generated_tokens, now
        self._gauges(load)
        if self._engine.algorithm is not None and load.running:
            registry, drafts = self.registry, max(1, self._engine.num_draft_tokens - 1)
            registry["spec_accept_length"].set(load.accept_length)
            registry["spec_accept_rate"].set((load.accept_length - 1) / drafts)

    def idle(self, load: Load, now: float) -> None:
        """The report of an engine that fell idle: throughput and running go to 0, the speculative gauges stay as they were."""
        self._counters(load, now)
        if self._idle_since is None:
            self._idle_since = now
        if self.frozen:
            return
        self.gen_throughput = 0.0
        self._last_tokens, self._last_report = load.generated_tokens, now
        self._gauges(load)

    def busy(self, now: float) -> None:
        """The engine left idleness; rates count from here."""
        if self._idle_since is not None:
            self.registry["scheduler_idle_seconds_total"].add(now - self._idle_since)
            self._idle_since = None
        self._last_report = now

    def _counters(self, load: Load, now: float) -> None:
        registry = self.registry
        if self._idle_since is not None:
            registry["scheduler_idle_seconds_total"].add(now - self._idle_since)
            self._idle_since = now
        registry["realtime_tokens_total"].set(load.prefill_tokens, "prefill_compute")
        registry["realtime_tokens_total"].set(int(load.generated_tokens), "decode")
        registry["prefill_effective_tokens_total"].set(load.prefill_tokens, "input")
        registry["cuda_graph_passes_total"].set(load.prefill_batches, "prefill_none")
        registry["cuda_graph_passes_total"].set(load.decode_steps, "decode_none")

    def _gauges(self, load: Load) -> None:
        registry, total = self.registry, self._engine.kv_tokens
        values = {
            "num_running_reqs": load.running,
            "num_queue_reqs": load.waiting,
            "gen_throughput": self.gen_throughput,
            "decode_sum_seq_lens": load.sequence_tokens,
            "token_usage": round(load.used_tokens / total, 2),
            "full_token_usage": load.used_tokens / total,
            "num_used_tokens": load.used_tokens,
            "kv_used_tokens": load.used_tokens,
            "kv_available_tokens": total - load.used_tokens,
        }
        for name, value in values.items():
            registry[name].set(value)

    def arrived(self) -> None:
        self.registry["per_stage_req_latency_seconds"].observe(0.0001, "request_process")

    def admitted(self, queue_seconds: float) -> None:
        self.registry["queue_time_seconds"].observe(queue_seconds)

    def prefilled(self, seconds: float, ttft_seconds: float, streaming: str) -> None:
        self.registry["per_stage_req_latency_seconds"].observe(seconds, "prefill_forward")
        self.registry["time_to_first_token_seconds"].observe(ttft_seconds, streaming)

    def emitted(self, seconds_per_token: float, tokens: int) -> None:
        self.registry["inter_token_latency_seconds"].observe(seconds_per_token, times=tokens)

    def finished(
        self, *, streaming: str, prompt_tokens: int, generated_tokens: int, verify_calls: int, seconds: float, decode_seconds: float
    ) -> None:
        """A request that ended by itself: the tokenizer's counters and histograms."""
        registry = self.registry
        registry["prompt_tokens_total"].add(prompt_tokens, streaming)
        registry["generation_tokens_total"].add(generated_tokens, streaming)
        registry["num_requests_total"].add(1, streaming)
        registry["prompt_tokens_histogram"].observe(prompt_tokens)
        registry["uncached_prompt_tokens_histogram"].observe(prompt_tokens)
        registry["generation_tokens_histogram"].observe(generated_tokens)
        registry["e2e_request_latency_seconds"].observe(seconds, streaming)
        if generated_tokens > 1:
            registry["request_time_per_output_token_seconds"].observe(decode_seconds / (generated_tokens - 1), streaming)
        if self._engine.algorithm is not None:
            registry["spec_verify_calls_total"].add(verify_calls, streaming)

    def aborted(self) -> None:
        self.registry["num_aborted_requests_total"].add(1)

    def page(self, *, nan: list[str], missing: list[str]) -> str:
        """The page of /metrics as it stands."""
        usage = os.times()
        self.registry["process_cpu_seconds_total"].set(usage.user + usage.system, "tokenizer")
        self.registry["scheduler_process_cpu_seconds_total"].set(time.process_time())
        return self.registry.exposition(nan=nan, missing=missing)
