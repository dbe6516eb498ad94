"""One task per service, woken by an event or by the period.

The tasks are our own and not kopf daemons: kopf starts no daemon for an object that is being deleted already and takes its
finalizer off at once, so an operator that was killed during a drain would come back and let the service go.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog

from mtpilot.telemetry.metrics import OperatorMetrics

from .context import PERIOD_SECONDS, Key, Ports
from .heartbeat import Heartbeat
from .turn import Memory, Outcome, Planner, run_turn

TURN_SECONDS = 120.0
_SETTLE_SECONDS = 0.2  # a burst of watch events makes one turn
_BACK_OFF_SECONDS = (1.0, 60.0)  # first and longest
_PATIENCE_SECONDS = 5.0  # a failing service is not woken out of this much of its back-off
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Loops:
    """All loops of the process, by namespace and name."""

    ports: Ports
    planner: Planner
    metrics: OperatorMetrics
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    period_seconds: float = PERIOD_SECONDS
    _wakes: dict[Key, asyncio.Event] = field(default_factory=dict)
    _tasks: dict[Key, asyncio.Task[None]] = field(default_factory=dict)
    _stopped: bool = False

    def ensure(self, key: Key) -> None:
        """Start the service's loop, or wake it where it runs. After `stop` nothing starts any more."""
        if self._stopped:
            return
        if key not in self._tasks:
            self._wakes[key] = asyncio.Event()
            self.heartbeat.beat(key)
            self._tasks[key] = asyncio.create_task(self._run(key), name=f"loop of {'/'.join(key)}")
        self._wakes[key].set()

    def wake(self, key: Key) -> None:
        """Wake the loop, if there is one."""
        if key in self._wakes:
            self._wakes[key].set()

    def wake_namespace(self, namespace: str) -> None:
        """Wake every loop of a namespace: something changed there that any of them may depend on."""
        for key in self._wakes:
            if key[0] == namespace:
                self._wakes[key].set()

    def ensure_all(self, keys: Iterable[Key]) -> None:
        """Start what is missing and wake nothing: a safety net under the watches."""
        for key in keys:
            if key not in self._tasks:
                _log.warning("a service was found that no watch event had told of", namespace=key[0], service=key[1])
                self.ensure(key)

    def keys(self) -> tuple[Key, ...]:
        return tuple(sorted(self._tasks))

    async def stop(self) -> None:
        """Cancel all loops and wait for their ends. A turn may be cut anywhere: every action can be repeated."""
        self._stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in self.keys():  # NB: a task that was cancelled before its first step never gets to its `finally`
            self._forget(key)

    async def _run(self, key: Key) -> None:
        memory, failures, wake = Memory(), 0, self._wakes[key]
        try:
            while True:
                wake.clear()
                outcome = await self._turn(key, memory)
                self.heartbeat.beat(key)
                # NB: no await between this look at the wake and the end of the loop, so a new service of that name is not missed.
                if outcome.gone and not wake.is_set():
                    return
                failures = failures + 1 if outcome.failed else 0
                await self._wait(wake, outcome, failures)
        finally:
            self._forget(key)

    async def _turn(self, key: Key, memory: Memory) -> Outcome:
        bound = _log.bind(namespace=key[0], service=key[1])
        try:
            async with asyncio.timeout(TURN_SECONDS):
                outcome = await run_turn(key=key, ports=self.ports, planner=self.planner, memory=memory, metrics=self.metrics)
        except TimeoutError:
            self.metrics.turn_errors.labels(*key, "timeout").inc()
            outcome = Outcome(failed=f"a turn took longer than {TURN_SECONDS:g}s")
        except Exception as error:
            # A bug met by one service must neither end its loop silently nor touch the others.
            self.metrics.turn_errors.labels(*key, "bug").inc()
            bound.exception("turn failed unexpectedly")
            return Outcome(failed=f"{type(error).__name__}: {error}")
        if outcome.failed:
            bound.warning("turn failed", error=outcome.failed)
        return outcome

    async def _wait(self, wake: asyncio.Event, outcome: Outcome, failures: int) -> None:
        if failures:
            first, longest = _BACK_OFF_SECONDS
            delay = min(first * 2.0 ** (failures - 1), longest)
            patience = min(delay, _PATIENCE_SECONDS)
            await asyncio.sleep(patience)
            await _woken(wake, delay - patience)
            return
        await _woken(wake, min(outcome.requeue_seconds, self.period_seconds))
        await asyncio.sleep(_SETTLE_SECONDS)

    def _forget(self, key: Key) -> None:
        self._tasks.pop(key, None)
        self._wakes.pop(key, None)
        self.heartbeat.forget(key)
        self.metrics.forget(*key)


async def _woken(wake: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
