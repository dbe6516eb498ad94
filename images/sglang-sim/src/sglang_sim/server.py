"""One simulated server: its state, and the lifecycle load, warm-up, serve, drain.

The order is the real one's: the port opens after the weights are loaded, `/ready` turns 200 after the warm-up request, and
SIGTERM turns `/ready` and `/health` to 503 at once while late arrivals are still served, until a check every few seconds
finds no request left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time

from sglang_sim.engine import Engine
from sglang_sim.faults import Faults
from sglang_sim.rows import Row
from sglang_sim.scheduler import Scheduler
from sglang_sim.settings import Settings
from sglang_sim.sse import CollectSink
from sglang_sim.telemetry import Telemetry

log = logging.getLogger("sglang_sim")

_WARMUP_PROMPT_TOKENS, _WARMUP_TOKENS = 3, 8


class Server:
    """The state that handlers share."""

    def __init__(self, engine: Engine, settings: Settings, faults: Faults) -> None:
        loop = asyncio.get_running_loop()
        self.engine, self.settings, self.faults, self.loop = engine, settings, faults, loop
        self.telemetry = Telemetry(engine, pid=os.getpid(), clock=loop.time())
        self.scheduler = Scheduler(engine, settings, faults, self.telemetry, loop)
        self.warm = self.unhealthy = self.exiting = False
        self.paused: str | None = None
        self.startup_time: dict[str, float] = {}
        self.drained = asyncio.Event()
        self._hung = False
        self._began = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """What /ready answers: warmed up, not paused, not shutting down, not unhealthy, and no fault that says otherwise."""
        never = self.engine.mode in self.faults.never_ready
        return self.warm and not never and self.paused is None and not self.exiting and not self.unhealthy and self.faults.ready

    @property
    def stuck(self) -> bool:
        """A health check's own request would not come back."""
        return self._hung or self.paused is not None

    def apply_faults(self) -> None:
        """Make the scheduler and the metrics follow the faults in force."""
        self.telemetry.frozen = self.faults.frozen_gauges
        if self.faults.hang != self._hung:
            self._hung = self.faults.hang
            if self._hung:
                self.scheduler.stop(retract=True)
            elif self.paused is None:
                self.scheduler.resume()
        if self.faults.crash:
            log.error("fault: crash")
            self.loop.call_later(0.05, os._exit, 1)

    def pause(self, mode: str) -> None:
        """/pause_generation: `abort` ends everything, `retract` puts it back into the queue, `in_place` stops where it stands."""
        self.paused = mode
        if mode == "abort":
            self.scheduler.abort_where(lambda _: True)
        self.scheduler.stop(retract=mode == "retract")

    def resume(self) -> None:
        """/continue_generation."""
        self.paused = None
        if not self._hung:
            self.scheduler.resume()

    async def load(self) -> None:
        """Take as long as weights take, or die on the way where a fault says so."""
        settings = self.settings
        spread = random.Random(f"{settings.seed}/{settings.identity}/{self.engine.mode}/load").uniform(-1.0, 1.0)
        seconds = settings.load_seconds * (1.0 + settings.load_jitter * spread)
        log.info("Load weight begin. mode=%s slots=%d seconds=%.1f", self.engine.mode, self.engine.slots, seconds)
        if self.engine.mode in self.faults.crash_on_start:
            await asyncio.sleep(seconds / 2)
            log.error("fault: crash on start")
            os._exit(1)
        await asyncio.sleep(seconds)
        self.startup_time = {"load_weight": seconds, "kv_cache_allocation": 0.1, "scheduler_e2e": seconds}
        log.info("max_total_num_tokens=%d, max_running_requests=%d", self.engine.kv_tokens, self.engine.slots)

    def start(self) -> None:
        """Begin warm-up and the watch for SIGTERM; call it when the port is open."""
        self.apply_faults()
        self.loop.add_signal_handler(signal.SIGTERM, self._terminate)
        self._tasks = [self.loop.create_task(self._warm_up()), self.loop.create_task(self._watch_exit())]

    async def warmed_up(self) -> None:
        """Wait for the warm-up request's end."""
        await asyncio.wait(self._tasks[:1])

    async def stop(self) -> None:
        """End the background tasks."""
        self.loop.remove_signal_handler(signal.SIGTERM)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _terminate(self) -> None:
        if self.faults.ignore_sigterm:
            log.warning("fault: SIGTERM ignored")
            return
        log.info("SIGTERM received. in_flight=%d", self.scheduler.in_flight)
        self.exiting = True

    async def _warm_up(self) -> None:
        registry = self.telemetry.registry
        if not self.engine.arguments.skip_server_warmup:
            await asyncio.sleep(self.settings.warmup_seconds)
            for method, path in (("GET", "/model_info"), ("POST", "/generate"), ("POST", "/freeze_gc")):
                registry["http_requests_total"].add(1, path, method)
                registry["http_responses_total"].add(1, path, method, "200")
                registry["http_requests_active"].add(0, path, method)
            sink = CollectSink(self.loop)
            row = Row(
                rid="warmup",
                prompt_tokens=_WARMUP_PROMPT_TOKENS,
                limit=_WARMUP_TOKENS,
                marker="",
                streaming=False,
                ignore_eos=True,
                sink=sink,
            )
            self.scheduler.submit(row)
            await sink.ended
        total = time.monotonic() - self._began
        self.startup_time["tokenizer_e2e"] = total
        self.telemetry.started(self.startup_time["load_weight"], total)
        self.warm = True
        if self.engine.mode in self.faults.never_ready:
            log.warning("fault: never ready")
        else:
            log.info("The server is fired up and ready to roll!")

    async def _watch_exit(self) -> None:
        while True:
            await asyncio.sleep(self.settings.drain_check_seconds)
            if not self.exiting:
                continue
            remaining = self.scheduler.in_flight
            if remaining and not (self.settings.force_shutdown or self.unhealthy):
                log.info("Gracefully exiting... Remaining number of requests %d.", remaining)
                continue
            log.info("Shutting down. remaining=%d", remaining)
            self.drained.set()
            return
