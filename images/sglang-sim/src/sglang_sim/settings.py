"""What the environment tells the simulator about itself.

The command line belongs to SGLang, so everything that only a stand-in needs (curves, load time, faults) is an
environment variable with the prefix SGLANG_SIM_. README.md describes each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "SGLANG_SIM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one simulated server. Seconds are wall-clock; `time_scale` speeds up steps and prefill only."""

    curve: str = "qwen3.5-122b-4xrtxpro6000"
    time_scale: float = 1.0
    load_seconds: float = 2.0
    load_jitter: float = 0.1
    warmup_seconds: float = 0.2
    accept_length: float | None = None
    seed: int = 0
    prefill_tokens_per_second: float = 50_000.0
    min_event_seconds: float = 0.1
    tick_seconds: float = 0.02
    default_output_tokens: int = 256
    eos: float = 0.0
    kv_tokens: int | None = None
    drain_check_seconds: float = 5.0
    health_seconds: float = 1.01
    health_timeout_seconds: float = 20.0
    keep_alive_seconds: float = 5.0
    fault_file: str | None = None
    faults_endpoint: bool = False
    crash_on_start: tuple[str, ...] = ()
    never_ready: tuple[str, ...] = ()
    bind_host: str | None = None
    force_shutdown: bool = False
    identity: str = ""


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Read SGLANG_SIM_* and SGLang's own variables of the same kind; ValueError names the SGLANG_SIM_* variable it cannot read."""
    env = os.environ if environment is None else environment

    def number(name: str, default: float, least: float = 0.0) -> float:
        text = env.get(PREFIX + name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{PREFIX}{name}: not a number: {text!r}") from None
        if not value >= least:
            raise ValueError(f"{PREFIX}{name}: {text} is below {least}")
        return value

    def words(name: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in env.get(PREFIX + name, "").split(",") if word.strip())

    def flag(name: str) -> bool:
        return env.get(name, "").lower() in {"1", "true", "yes", "on"}

    base = Settings()
    return Settings(
        curve=env.get(PREFIX + "CURVE") or base.curve,
        time_scale=number("TIME_SCALE", base.time_scale, 1e-3),
        load_seconds=number("LOAD_SECONDS", base.load_seconds),
        load_jitter=number("LOAD_JITTER", base.load_jitter),
        warmup_seconds=number("WARMUP_SECONDS", base.warmup_seconds),
        accept_length=number("ACCEPT_LENGTH", 0.0) or None,
        seed=int(number("SEED", base.seed)),
        prefill_tokens_per_second=number("PREFILL_TOKENS_PER_SECOND", base.prefill_tokens_per_second, 1.0),
        min_event_seconds=number("MIN_EVENT_SECONDS", base.min_event_seconds),
        tick_seconds=number("TICK_SECONDS", base.tick_seconds),
        default_output_tokens=int(number("DEFAULT_OUTPUT_TOKENS", base.default_output_tokens, 1)),
        eos=number("EOS", base.eos),
        kv_tokens=int(number("KV_TOKENS", 0)) or None,
        drain_check_seconds=number("DRAIN_CHECK_SECONDS", base.drain_check_seconds, 0.01),
        health_seconds=number("HEALTH_SECONDS", base.health_seconds),
        health_timeout_seconds=float(env.get("SGLANG_HEALTH_CHECK_TIMEOUT") or base.health_timeout_seconds),
        keep_alive_seconds=float(env.get("SGLANG_TIMEOUT_KEEP_ALIVE") or base.keep_alive_seconds),
        fault_file=env.get(PREFIX + "FAULT_FILE") or None,
        faults_endpoint=flag(PREFIX + "FAULTS_ENDPOINT"),
        crash_on_start=words("CRASH_ON_START"),
        never_ready=words("NEVER_READY"),
        bind_host=env.get(PREFIX + "BIND_HOST") or None,
        force_shutdown=flag("SGL_FORCE_SHUTDOWN"),
        identity=env.get("POD_NAME") or env.get("HOSTNAME") or "",
    )
