"""Sends the requests: open loop by a schedule, or closed loop with a number of clients.

Open loop is what traffic from outside is; a closed loop keeps a service under constant pressure while something is done
to it. Both give one record for every request that was sent, whatever became of it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.load.answer import judge, read_answer
from e2e.load.exchange import Target, exchange, request_bytes
from e2e.load.result import Outcome, Record
from e2e.load.schedule import MAX_REQUESTS, Request, Schedule

_SERVED_BY = "x-mtpilot-"


@dataclass(slots=True, kw_only=True)
class Counters:
    """Running totals, for a live view; `output_tokens` are those of completed answers."""

    sent: int = 0
    in_flight: int = 0
    completed: int = 0
    failed: int = 0
    incomplete: int = 0
    leaked: int = 0
    output_tokens: int = 0
    latency_seconds: float = 0.0
    peak_in_flight: int = 0
    worst_lag_seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True, kw_only=True)
class Generator:
    """One run of load. `on_record` gets each record as its request ends."""

    targets: Sequence[Target]
    model: str
    timeout_seconds: float
    on_record: Callable[[Record], None]
    words_are_tokens: bool = True
    run: str = field(default_factory=lambda: f"{random.getrandbits(32):08x}")
    counters: Counters = field(default_factory=Counters)
    _round_robin: itertools.count[int] = field(default_factory=itertools.count)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Send nothing more; what is in flight is answered."""
        self._stopping.set()

    async def replay(self, schedule: Schedule) -> None:
        """Send every request when it is due, whether or not earlier ones were answered."""
        start = time.time()
        async with asyncio.TaskGroup() as tasks:
            for request in schedule.requests:
                due_at = start + request.at_seconds
                if await self._stopped_before(due_at):
                    return
                tasks.create_task(self._one(request, due_at))

    async def steady(self, *, clients: int, request: Request, seconds: float, pause_seconds: float = 0.0) -> None:
        """`clients` clients, each sending its next request when the last one was answered, until `stop` or for `seconds`."""
        until = time.time() + seconds

        async def client() -> None:
            while not self._stopping.is_set() and time.time() < until and self.counters.sent < MAX_REQUESTS:
                await self._one(request, time.time())
                if pause_seconds:
                    await self._stopped_before(time.time() + pause_seconds)

        async with asyncio.TaskGroup() as tasks:
            for number in range(clients):
                tasks.create_task(client())
                if await self._stopped_before(time.time() + min(1.0, 0.005 * number)):
                    return

    async def _stopped_before(self, at: float) -> bool:
        wait = at - time.time()
        if wait > 0 and not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), wait)
            except TimeoutError:
                return False
        return self._stopping.is_set()

    async def _one(self, request: Request, due_at: float) -> None:
        number = next(self._round_robin)
        target = self.targets[number % len(self.targets)]
        marker = f"{self.run}-{number}"
        counters = self.counters
        counters.sent += 1
        counters.in_flight += 1
        counters.peak_in_flight = max(counters.peak_in_flight, counters.in_flight)
        payload = request_bytes(
            target, model=self.model, marker=marker, input_tokens=request.input_tokens, output_tokens=request.output_tokens
        )
        sent_at = time.time()
        counters.worst_lag_seconds = max(counters.worst_lag_seconds, sent_at - due_at)
        exchanged = await exchange(target, payload, timeout_seconds=self.timeout_seconds)
        ended_at = time.time()
        answer = read_answer(bytes(exchanged.raw))
        outcome, error = judge(answer, marker=marker, output_tokens=request.output_tokens, words_are_tokens=self.words_are_tokens)
        if exchanged.error and outcome is not Outcome.COMPLETED:
            error = f"{exchanged.error}; {error}" if error else exchanged.error
        record = Record(
            index=number,
            marker=marker,
            target=target.url,
            due_at=due_at,
            sent_at=sent_at,
            ended_at=ended_at,
            ttft_seconds=None if exchanged.first_token_at is None else exchanged.first_token_at - due_at,
            status=answer.status,
            input_tokens=request.input_tokens,
            expected_tokens=request.output_tokens,
            output_tokens=answer.completion_tokens or 0,
            outcome=outcome,
            error=error,
            served_by={name: value for name, value in answer.headers.items() if name.startswith(_SERVED_BY)},
        )
        self._count(record)
        self.on_record(record)

    def _count(self, record: Record) -> None:
        counters = self.counters
        counters.in_flight -= 1
        setattr(counters, record.outcome.value, getattr(counters, record.outcome.value) + 1)
        if record.outcome is Outcome.COMPLETED:
            counters.output_tokens += record.output_tokens
            counters.latency_seconds += record.latency_seconds
