"""What the server says about itself: /v1/loads, /server_info, /model_info, /v1/models.

The shapes are those of the recordings; values come from the resolved engine and the scheduler at the moment of asking.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from sglang_sim.engine import Engine
from sglang_sim.flags import SGLANG_VERSION
from sglang_sim.scheduler import Scheduler

_REDACTED = ("api_key", "admin_api_key", "ssl_keyfile_password")


@cache
def _template(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files("sglang_sim").joinpath(f"data/{name}.json").read_text())
    return document


def loads(engine: Engine, scheduler: Scheduler, *, include: frozenset[str]) -> dict[str, Any]:
    """The body of /v1/loads; `include` names the optional sections (empty: all)."""
    load = scheduler.load()
    waiting_tokens = sum(row.prompt_tokens for row in scheduler.waiting)
    total = load.used_tokens + waiting_tokens
    document: dict[str, Any] = {
        "timestamp": time.time(),
        "dp_rank": 0,
        "num_running_reqs": load.running,
        "num_waiting_reqs": load.waiting,
        "num_waiting_uncached_tokens": waiting_tokens,
        "num_used_tokens": load.used_tokens,
        "num_total_tokens": total,
        "num_active_tokens": total,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": engine.kv_tokens,
        "max_running_requests": engine.slots,
        "token_usage": round(load.used_tokens / engine.kv_tokens, 4),
        "gen_throughput": round(scheduler.telemetry.gen_throughput, 2),
        "cache_hit_rate": 0.0,
        "utilization": 0.0,
        "total_prefill_uncached_tokens": scheduler.prefill_tokens,
        "total_prefill_busy_us": int(scheduler.prefill_seconds * 1e6),
        "decode_moments": [float(int(value)) for value in scheduler.decode_moments],
    }
    sections: dict[str, Any] = {
        "memory": {"weight_gb": 0.0, "kv_cache_gb": 0.0, "graph_gb": 0.0, "token_capacity": engine.kv_tokens},
        "disaggregation": {
            "mode": "null",
            "prefill_bootstrap_queue_reqs": 0,
            "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0,
            "decode_transfer_queue_reqs": 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 0.0,
            "kv_transfer_latency_ms": 0.0,
        },
        "queues": {"waiting": load.waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
    }
    if engine.algorithm is not None:
        rate = (load.accept_length - 1) / max(1, engine.num_draft_tokens - 1)
        sections["speculative"] = {"accept_length": round(load.accept_length, 3), "accept_rate": round(rate, 3)}
    names = {"memory": "memory", "disaggregation": "disagg", "queues": "queues", "speculative": "spec"}
    document.update({key: value for key, value in sections.items() if not include & {*names.values(), "core"} or names[key] in include})
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": SGLANG_VERSION,
        "accelerator": None,
        "num_accelerators": engine.argument("tp_size", 1),
        "loads": [document],
    }


def _arguments(engine: Engine) -> dict[str, Any]:
    document = dict(_template("server_info")["server"])
    for name in engine.given:
        if name in document:
            document[name] = getattr(engine.arguments, name)
    document.update(
        served_model_name=engine.served_model_name,
        tokenizer_path=engine.argument("tokenizer_path", engine.model_path),
        max_running_requests=engine.requested_slots,
        launch_command=engine.launch_command,
        max_total_num_tokens=engine.kv_tokens,
        max_req_input_len=engine.max_input_tokens,
    )
    if engine.algorithm is not None:
        document.update(
            speculative_algorithm=engine.algorithm,
            speculative_num_steps=engine.num_steps,
            speculative_eagle_topk=engine.argument("speculative_eagle_topk", 1),
            speculative_num_draft_tokens=engine.num_draft_tokens,
        )
    for name in _REDACTED:
        secret = getattr(engine.arguments, name, None)
        if secret:
            document[name] = "<redacted>"
            document["launch_command"] = document["launch_command"].replace(secret, "<redacted>")
    return document


def server_info(engine: Engine, scheduler: Scheduler, status: str, startup_time: dict[str, float]) -> dict[str, Any]:
    """The body of /server_info: resolved arguments, and the scheduler's state in `internal_states`."""
    template = _template("server_info")
    server = _arguments(engine)
    server["status"] = status
    server["startup_time"] = {**server["startup_time"], **startup_time}
    state = {key: value for key, value in server.items() if key not in template["state_excludes"]}
    state.update(template["state_only"])
    state.update(template["state_overrides"])
    state["startup_time"] = {key: value for key, value in server["startup_time"].items() if key != "tokenizer_e2e"}
    state["effective_max_running_requests_per_dp"] = engine.slots
    state["pp_max_micro_batch_size"] = scheduler.micro_batch_limit or engine.slots
    state["last_gen_throughput"] = round(scheduler.telemetry.gen_throughput, 2)
    state["memory_usage"] = {**state["memory_usage"], "token_capacity": engine.kv_tokens}
    if engine.algorithm is not None and scheduler.lifetime_verifies:
        state["avg_spec_accept_length"] = scheduler.lifetime_tokens / scheduler.lifetime_verifies
    return {**server, "internal_states": [state], "version": SGLANG_VERSION, "frontend": "python"}


def model_info(engine: Engine) -> dict[str, Any]:
    """The body of /model_info."""
    return {
        **_template("model_info"),
        "model_path": engine.model_path,
        "served_model_name": engine.served_model_name,
        "tokenizer_path": engine.argument("tokenizer_path", engine.model_path),
        "load_format": engine.arguments.load_format,
        "reasoning_parser": engine.arguments.reasoning_parser,
        "tool_call_parser": engine.arguments.tool_call_parser,
    }


def models(engine: Engine) -> dict[str, Any]:
    """The body of /v1/models."""
    card = {
        "id": engine.served_model_name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": engine.served_model_name,
        "parent": None,
        "max_model_len": engine.context_length,
    }
    return {"object": "list", "data": [card]}
