"""The continuous batch: slots, one queue in order of arrival, and decode steps that last what the curve says.

Driven by timer callbacks in the event loop. Steps are run in groups of a few milliseconds, and a group's end is an absolute
time, so that a late timer shortens the next wait and the mean rate stays on the curve however busy the machine is.
A row costs a few floating-point operations a group; text is only made when an event is due.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable

from sglang_sim.engine import Engine
from sglang_sim.faults import Faults
from sglang_sim.rows import Row, mix_up
from sglang_sim.settings import Settings
from sglang_sim.telemetry import Load, Telemetry

_MAX_CATCH_UP_SECONDS = 2.0
_WHOLE_ANSWER_TOKENS = 50
"""How often the real scheduler reports on a request that is not streamed: the inter-token latency shows it."""


class Scheduler:
    """Queue, slots and the step loop of one replica. All methods run in the event loop's thread."""

    def __init__(self, engine: Engine, settings: Settings, faults: Faults, telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
        self.engine, self.telemetry, self.faults = engine, telemetry, faults
        self.micro_batch_limit: int | None = None
        self.waiting: deque[Row] = deque()
        self.decoding: list[Row] = []
        self.prefilling: deque[tuple[float, Row]] = deque()
        self.decode_steps = 0
        self.decode_moments = [0.0] * 6
        self._settings, self._loop = settings, loop
        self._random = random.Random(f"{settings.seed}/{settings.identity}/eos")
        self._steps_in_group = 0
        self._base = self._step = 0.0
        self._prefill_free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._reported_steps = 0
        self._generated = 0.0
        self.prefill_tokens = self._prefill_batches = 0
        self.prefill_seconds = 0.0
        self._kv_used = 0
        self._stopped = False
        self.lifetime_tokens = self.lifetime_verifies = 0.0

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self.decoding) + len(self.prefilling)

    @property
    def in_flight(self) -> int:
        return self.running + len(self.waiting)

    @property
    def accept_length(self) -> float:
        """Tokens a row gains in one step, including the bonus token."""
        if self.engine.algorithm is None:
            return 1.0
        return max(1.0, self.faults.accept_length or self.engine.accept_length)

    def load(self) -> Load:
        """The engine at this moment."""
        rows = [*self.decoding, *(row for _, row in self.prefilling)]
        sequence = sum(row.prompt_tokens + row.generated for row in rows)
        return Load(
            running=len(rows),
            waiting=len(self.waiting),
            used_tokens=sequence,
            sequence_tokens=sequence,
            accept_length=self.accept_length,
            generated_tokens=self._generated,
            prefill_tokens=self.prefill_tokens,
            decode_steps=self.decode_steps,
            prefill_batches=self._prefill_batches,
        )

    def submit(self, row: Row) -> bool:
        """Queue a row; False when --max-queued-requests is reached."""
        limit = self.engine.arguments.max_queued_requests
        if limit is not None and len(self.waiting) >= limit:
            return False
        row.arrived_at = self._loop.time()
        self.telemetry.arrived()
        if self._settings.eos and not row.ignore_eos:
            end = 1 + int(self._random.expovariate(self._settings.eos))
            row.limit, row.stops = min(row.limit, end), end < row.limit
        self.waiting.append(row)
        if self._stopped:
            self.telemetry.report(self.load(), row.arrived_at)
        self._admit()
        self._wake()
        return True

    def abort(self, row: Row) -> None:
        """Take a row out, wherever it is, free its slot at once and end its stream."""
        if row.finish_reason is not None:
            return
        if row in self.waiting:
            self.waiting.remove(row)
        else:
            self._release(row)
        row.finish_reason = "abort"
        self.telemetry.aborted()
        row.sink.end(row)
        self._admit()
        self._wake()
        if not self.in_flight:
            self.telemetry.idle(self.load(), self._loop.time())

    def abort_where(self, matches: Callable[[Row], bool]) -> int:
        """Abort the matching rows; how many there were."""
        rows = [row for row in (*self.waiting, *self.decoding, *(row for _, row in self.prefilling)) if matches(row)]
        for row in rows:
            self.abort(row)
        return len(rows)

    def stop(self, *, retract: bool) -> None:
        """Stand still; with `retract` the running rows go back to the head of the queue and keep what they generated."""
        self._stopped = True
        self._cancel_timer()
        if retract:
            rows = [*self.decoding, *(row for _, row in self.prefilling)]
            self.waiting.extendleft(reversed(rows))
            self.decoding, self._kv_used = [], 0
            self.prefilling.clear()
            self.telemetry.report(self.load(), self._loop.time())

    def resume(self) -> None:
        """Go on after `stop`."""
        self._stopped = False
        self._base = self._loop.time()
        self._admit()
        self._wake()

    def reset_lifetime(self) -> None:
        """Forget the lifetime accept length, as /flush_cache does."""
        self.lifetime_tokens = self.lifetime_verifies = 0.0

    def _release(self, row: Row) -> None:
        if row in self.decoding:
            self.decoding.remove(row)
        else:
            self.prefilling = deque(item for item in self.prefilling if item[1] is not row)
        self._kv_used -= row.kv_tokens

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._stopped or not self.running:
            if not self.running:
                self._cancel_timer()
            return
        if self._timer is None:
            now = self._loop.time()
            self.telemetry.busy(now)
            self._base, self._steps_in_group = now, 0
            self._plan(now)
        elif self.prefilling and self._steps_in_group:
            self._shorten_group(self.prefilling[0][0])
        elif self.prefilling and not self.decoding:
            self._cancel_timer()
            self._plan(self._loop.time())

    def _shorten_group(self, ready_at: float) -> None:
        """End the group under way with the step in which a prefilled row can join."""
        began = self._base - self._steps_in_group * self._step
        steps = max(1, math.ceil((ready_at - began) / self._step))
        if steps < self._steps_in_group:
            self._cancel_timer()
            self._steps_in_group, self._base = steps, began + steps * self._step
            self._timer = self._loop.call_at(self._base, self._tick)

    def _admit(self) -> None:
        if self._stopped:
            return
        limit = min(self.engine.slots, self.micro_batch_limit or self.engine.slots)
        now, admitted = self._loop.time(), False
        while self.waiting and self.running < limit and self._kv_used + self.waiting[0].kv_tokens <= self.engine.kv_tokens:
            row = self.waiting.popleft()
            row.admitted_at = now
            self._kv_used += row.kv_tokens
            seconds = row.prompt_tokens / self._settings.prefill_tokens_per_second / self._settings.time_scale
            self._prefill_free_at = max(now, self._prefill_free_at) + seconds
            self.prefill_tokens += row.prompt_tokens
            self.prefill_seconds += seconds
            self.prefilling.append((self._prefill_free_at, row))
            self.telemetry.admitted(now - row.arrived_at)
            admitted = True
        if admitted:
            self._prefill_batches += 1
            self.telemetry.report(self.load(), now)

    def _plan(self, now: float) -> None:
        """Move prefilled rows into the batch, then time the next group of steps."""
        while self.prefilling and self.prefilling[0][0] <= now:
            _, row = self.prefilling.popleft()
            self.decoding.append(row)
            self._first_token(row, now)
        if not self.decoding:
            self._steps_in_group = 0
            if not self.prefilling:
                self._admit()
            if self.prefilling:
                self._base = self.prefilling[0][0]
                self._timer = self._loop.call_at(self._base, self._tick)
            else:
                self.telemetry.idle(self.load(), now)
            return
        seconds = self._step_seconds(len(self.decoding))
        if now - self._base > _MAX_CATCH_UP_SECONDS:
            self._base = now
        steps = max(1, int(max(self._settings.tick_seconds, now - self._base) / seconds))
        nearest = min(row.limit - row.progress for row in self.decoding)
        if self.prefilling:
            steps = min(steps, math.ceil((self.prefilling[0][0] - self._base) / seconds))
        self._step = seconds
        self._steps_in_group = max(1, min(steps, math.ceil(nearest / self.accept_length - 1e-9)))
        self._base += self._steps_in_group * seconds
        self._timer = self._loop.call_at(self._base, self._tick)

    def _step_seconds(self, batch: int) -> float:
        return self.engine.curve.step_seconds(batch) / self._settings.time_scale * max(self.faults.slow_factor, 1e-3)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._steps_in_group:
            self._advance(now)
        self._admit()
        self._plan(now)

    def _advance(self, now: float) -> None:
        steps, gain = self._steps_in_group, self._steps_in_group * self.accept_length
        self.decode_steps += steps
        self._generated += gain * len(self.decoding)
        self._count_moments(steps, gain)
        due = []
        for row in self.decoding:
            row.progress += gain
            if row.progress >= row.mark:
                due.append(row)
        if due:
            mix_up(self.faults.rows, self.decoding, due)
            every = self._event_tokens()
            for row in due:
                self._emit(row, now, every)
        if self.decode_steps - self._reported_steps >= self.engine.arguments.decode_log_interval:
            self._reported_steps = self.decode_steps
            self.telemetry.report(self.load(), now)

    def _count_moments(self, steps: int, gain: float) -> None:
        batch = len(self.decoding)
        micros = self._step_seconds(max(1, batch)) * 1e6 * steps
        for index, value in enumerate((steps, steps * batch, micros, steps * batch * batch, micros * batch, gain * batch)):
            self.decode_moments[index] += value

    def _event_tokens(self) -> int:
        """Tokens between two events of a row: --stream-interval, or more where steps are shorter than the least event time."""
        seconds = self._step_seconds(max(1, len(self.decoding)))
        interval: int = self.engine.arguments.stream_interval
        return max(interval, math.ceil(self._settings.min_event_seconds / seconds * self.accept_length))

    def _first_token(self, row: Row, now: float) -> None:
        if row.generated:
            return
        row.progress, row.generated, row.first_at, row.last_at = 1.0, 1, now, now
        self._generated += 1
        self.telemetry.prefilled(now - row.admitted_at, now - row.arrived_at, row.label)
        if row.limit <= 1:
            self._finish(row, now)
            return
        if row.streaming:
            row.mark = min(row.limit, 1 + self._event_tokens())
            row.sink.emit(row)
            row.sent = 1
        else:
            row.mark = min(row.limit, _WHOLE_ANSWER_TOKENS)

    def _emit(self, row: Row, now: float, every: int) -> None:
        before = row.generated
        row.generated = min(row.limit, int(row.progress + 1e-9))
        if row.sent:
            self.telemetry.emitted((now - row.last_at) / max(1, row.generated - before), row.generated - before)
        row.last_at = now
        if row.generated >= row.limit or row.cut:
            self._finish(row, now)
            return
        row.mark = min(row.limit, row.generated + (every if row.streaming else _WHOLE_ANSWER_TOKENS))
        row.sink.emit(row)
        row.sent = row.generated

    def _finish(self, row: Row, now: float) -> None:
        self._generated -= max(0.0, row.progress - row.generated)
        self._release(row)
        row.finish_reason = "stop" if row.stops and not row.cut else "length"
        verifies = row.verify_calls(self.accept_length)
        self.lifetime_tokens += max(0, row.generated - 1)
        self.lifetime_verifies += verifies
        self.telemetry.finished(
            streaming=row.label,
            prompt_tokens=row.prompt_tokens,
            generated_tokens=row.generated,
            verify_calls=verifies,
            seconds=now - row.arrived_at,
            decode_seconds=now - row.first_at,
        )
        row.sink.end(row)
