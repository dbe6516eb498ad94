"""One container as a local process: start, probes, restarts with back-off, hooks, signals and grace.

Follows a kubelet where a drain or a rollback could tell the difference: the preStop hook counts against the grace, SIGTERM goes to the
first process only, the first restart is immediate and later ones back off, and exit codes are a runtime's (128 + signal).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from e2e.clusters.kube import ApiError
from e2e.clusters.local.config import Image
from e2e.clusters.local.node import probes
from e2e.clusters.local.node.environment import ConfigError
from e2e.clusters.local.node.prober import Prober
from e2e.clusters.local.node.records import ContainerRecord, Running, Terminated, Waiting, timestamp
from e2e.clusters.local.process import Process

_MINIMUM_GRACE_SECONDS = 2.0
_BACKOFF_RESET_SECONDS = 600.0
_CONFIG_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A container that can be started: the resolved command, its environment and folders.

    `translate` maps the words of a further command in it (a probe's, a hook's) onto this machine.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    pid_file: Path
    translate: Callable[[Sequence[str]], list[str]]


class Backoff:
    """Doubling delays between restarts; forgotten after a long good run."""

    def __init__(self, base_seconds: float, max_seconds: float) -> None:
        self._base, self._max = base_seconds, max_seconds
        self._next = 0.0

    def after(self, ran_seconds: float) -> float:
        """Give the delay after a run of this length; the first one is 0."""
        if ran_seconds >= _BACKOFF_RESET_SECONDS:
            self._next = 0.0
        delay = self._next
        self._next = min(self._max, max(self._base, 2 * delay))
        return delay


class Container:
    """Runs one container until no restart is due or the pod is ended."""

    def __init__(
        self,
        *,
        spec: Mapping[str, Any],
        record: ContainerRecord,
        restart: str,
        pod_grace_seconds: float,
        address: str,
        description: str,
        image: Callable[[str], Image | None],
        prepare: Callable[[Mapping[str, Any], Image], Awaitable[Prepared]],
        changed: Callable[[], None],
        event: Callable[[str, str, str], None],
        backoff_seconds: float,
        backoff_max_seconds: float,
    ) -> None:
        self.record = record
        self._spec = spec
        self._restart = restart
        self._pod_grace_seconds = pod_grace_seconds
        self._address = address
        self._description = description
        self._image = image
        self._prepare = prepare
        self._changed = changed
        self._event = event
        self._crash_backoff = Backoff(backoff_seconds, backoff_max_seconds)
        self._pull_backoff = Backoff(backoff_seconds, backoff_max_seconds)
        self._stopping = asyncio.Event()
        self._deadline_moved = asyncio.Event()
        self._deadline: float | None = None
        self._process: Process | None = None
        self._prober: Prober | None = None
        self._prepared: Prepared | None = None

    async def run(self) -> None:
        """Run, restart by policy, and return when the container has ended for good."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            prepared = await self._until_prepared()
            if prepared is None:
                break
            began = loop.time()
            code = await self._run_once(prepared)
            if self._stopping.is_set() or self._restart == "Never" or (self._restart == "OnFailure" and code == 0):
                break
            await self._back_off(self._crash_backoff.after(loop.time() - began))
        self._settle()

    def stop(self, grace_seconds: float) -> None:
        """End it within the grace from now; a later call can only shorten it. `run` returns when it has ended."""
        deadline = asyncio.get_running_loop().time() + grace_seconds
        self._stopping.set()
        if self._deadline is None or deadline < self._deadline:
            self._deadline = deadline
            self._deadline_moved.set()

    async def _back_off(self, seconds: float) -> None:
        if seconds > 0:
            message = f"back-off {seconds:g}s restarting failed container={self.record.name} pod={self._description}"
            self.record.state = Waiting(reason="CrashLoopBackOff", message=message)
            self._changed()
            self._event("Warning", "BackOff", f"Back-off restarting failed container {self.record.name} in pod {self._description}")
            await self._pause(seconds)
        if not self._stopping.is_set():
            self.record.restart_count += 1

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _until_prepared(self) -> Prepared | None:
        """Find the image and resolve the configuration, again and again as a kubelet does; None when the pod is ended first."""
        while not self._stopping.is_set():
            image = self._image(self._spec["image"])
            if image is None:
                await self._report_missing_image()
                continue
            try:
                prepared = await self._prepare(self._spec, image)
            except ConfigError as error:
                self._wait_for("CreateContainerConfigError", str(error))
            except (ApiError, aiohttp.ClientError, TimeoutError):
                self._wait_for("ContainerCreating", "")
            else:
                if shutil.which(prepared.command[0], path=prepared.environment["PATH"]) is not None:
                    return prepared
                self._end_unstarted(prepared.command[0])
                if self._restart == "Never":
                    return None
                await self._back_off(self._crash_backoff.after(0.0))
                continue
            await self._pause(_CONFIG_RETRY_SECONDS)
        return None

    async def _report_missing_image(self) -> None:
        name = self._spec["image"]
        message = f'failed to pull and unpack image "{name}": not found'
        self._wait_for("ErrImagePull", message)
        self._event("Warning", "Failed", f'Failed to pull image "{name}": not found')
        delay = self._pull_backoff.after(0.0)
        await self._pause(min(1.0, delay / 2))
        if delay > 0:
            self._wait_for("ImagePullBackOff", f'Back-off pulling image "{name}"')
            await self._pause(delay)

    def _wait_for(self, reason: str, message: str) -> None:
        if not self._stopping.is_set():
            self.record.state = Waiting(reason=reason, message=message)
            self._changed()

    def _end_unstarted(self, program: str) -> None:
        now = timestamp()
        message = f'exec: "{program}": executable file not found in $PATH'
        self._ended(Terminated(exit_code=128, reason="StartError", started_at=now, finished_at=now, message=message))

    async def _run_once(self, prepared: Prepared) -> int:
        prepared.log.parent.mkdir(parents=True, exist_ok=True)
        prepared.folder.mkdir(parents=True, exist_ok=True)
        with prepared.log.open("ab") as log:
            process = Process.start(
                prepared.command, pid_file=prepared.pid_file, output=log, environment=prepared.environment, folder=prepared.folder
            )
        started_at = timestamp()
        self._process, self._prepared = process, prepared
        self.record.container_id = f"process://{uuid.uuid4().hex}"
        self.record.state = Running(started_at=started_at)
        self.record.started = self.record.ready = False
        self._changed()
        code = await self._supervise(process)
        exit_code = code if code >= 0 else 128 - code
        reason = "Completed" if exit_code == 0 else "Error"
        identifier = self.record.container_id
        self._ended(Terminated(exit_code=exit_code, reason=reason, started_at=started_at, finished_at=timestamp(), container_id=identifier))
        return exit_code

    async def _supervise(self, process: Process) -> int:
        """Probe the process and wait for its end, ending it when the pod or a probe asks."""
        self._prober = Prober(spec=self._spec, record=self.record, target=self._target(), changed=self._changed, unhealthy=self._unhealthy)
        probing = asyncio.create_task(self._prober.run())
        waiting = asyncio.create_task(process.wait())
        asked = asyncio.create_task(self._deadline_moved.wait())
        try:
            await asyncio.wait({waiting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                self._prober.stop_liveness()
                await self._end(process, waiting)
            return await asyncio.shield(waiting)
        finally:
            process.send(signal.SIGKILL)  # only when this task itself is cancelled does it still run
            for task in (probing, asked, waiting):
                task.cancel()
            await asyncio.gather(probing, asked, waiting, return_exceptions=True)
            self._process = self._prober = None
            if not self._stopping.is_set():
                self._deadline = None
                self._deadline_moved.clear()

    async def _end(self, process: Process, waiting: asyncio.Task[int]) -> None:
        """PreStop, SIGTERM, SIGKILL. NB: the deadline may move nearer at any time; after the hook there are always two seconds."""
        hook = self._spec.get("lifecycle", {}).get("preStop")
        if hook is not None:
            acting = asyncio.create_task(probes.act(hook, self._target()))
            await self._until_deadline({acting, waiting})
            if acting.done() and (why := acting.result()) is not None:
                self._event("Warning", "FailedPreStopHook", why)
            acting.cancel()
            await asyncio.gather(acting, return_exceptions=True)
        if waiting.done():
            return
        process.send(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        earliest = loop.time() + _MINIMUM_GRACE_SECONDS
        self._deadline = max(self._deadline or 0.0, earliest)
        await self._until_deadline({waiting})
        process.send(signal.SIGKILL)

    async def _until_deadline(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Wait for the first of the tasks or for the deadline, wherever that moves meanwhile."""
        loop = asyncio.get_running_loop()
        while True:
            self._deadline_moved.clear()
            moved = asyncio.create_task(self._deadline_moved.wait())
            left = (self._deadline or 0.0) - loop.time()
            done, _ = await asyncio.wait({*tasks, moved}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
            if done != {moved}:
                return

    def _unhealthy(self, probe: str, why: str, grace_seconds: int | None) -> None:
        self._event("Warning", "Unhealthy", f"{probe} probe failed: {why}")
        self._event("Normal", "Killing", f"Container {self.record.name} failed {probe.lower()} probe, will be restarted")
        self.record.ready = False
        grace = self._pod_grace_seconds if grace_seconds is None else grace_seconds
        self._deadline = asyncio.get_running_loop().time() + grace
        self._deadline_moved.set()

    def _ended(self, end: Terminated) -> None:
        self.record.state = self.record.last = end
        self.record.ready = self.record.started = False
        self._changed()

    def _settle(self) -> None:
        """A container that waits while its pod is ended shows its last end, or that it never ran."""
        if isinstance(self.record.state, Waiting) and self._stopping.is_set():
            now = timestamp()
            never = Terminated(exit_code=137, reason="ContainerStatusUnknown", started_at=now, finished_at=now, message="never started")
            self.record.state = self.record.last or never
        self._changed()

    def _target(self) -> probes.Target:
        ports = {port["name"]: port["containerPort"] for port in self._spec.get("ports", []) if "name" in port}
        return probes.Target(address=self._address, ports=ports, execute=self._execute)

    async def _execute(self, command: Sequence[str]) -> int:
        prepared = self._prepared
        if prepared is None:
            return 126
        pid_file = prepared.pid_file.with_name(f"exec-{uuid.uuid4().hex[:8]}.pid")
        return await probes.execute(
            prepared.translate(command), environment=prepared.environment, folder=prepared.folder, pid_file=pid_file
        )
