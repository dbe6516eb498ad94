"""One long-running part of the cluster: started, found ready, stopped, killed and started again by tests.

A fault test takes a part away while everything else goes on, so each part can be stopped and started alone and keeps its ports and files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGKILL

from e2e.clusters.local.process import Process

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.1


class ComponentError(RuntimeError):
    """A part ended or did not become ready; the message carries the end of its log."""


class Component:
    """A named child process with a log file and a readiness check."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        state: Path,
        ready: Callable[[], Awaitable[bool]],
        ready_seconds: float = 60.0,
        grace_seconds: float = 10.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_path = state / "logs" / f"{name}.log"
        self._command = list(command)
        self._pid_file = state / "run" / f"{name}.pid"
        self._ready = ready
        self._ready_seconds = ready_seconds
        self._grace_seconds = grace_seconds
        self._environment = environment
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """The pid while it runs, else None."""
        return self._process.pid if self._process is not None and self._process.exit_code is None else None

    async def start(self) -> None:
        """Start it and wait until it is ready; ComponentError when it is not in time. Nothing happens if it runs already."""
        if self.pid is None:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as log:
                self._process = Process.start(self._command, pid_file=self._pid_file, output=log, environment=self._environment)
            _log.debug("%s started as pid %s", self.name, self.pid)
        await self._until_ready()

    async def stop(self) -> None:
        """Stop it as an administrator would: SIGTERM, SIGKILL after its grace. Nothing happens if it does not run."""
        if self._process is not None:
            await self._process.stop(grace_seconds=self._grace_seconds)

    async def kill(self) -> None:
        """Take it away at once (SIGKILL), as a crash would."""
        if self._process is not None:
            self._process.send(SIGKILL)
            await self._process.wait()

    async def _until_ready(self) -> None:
        try:
            async with asyncio.timeout(self._ready_seconds):
                while not await self._ready():
                    if self.pid is None:
                        raise ComponentError(f"{self.name} ended before it was ready; {self._tail()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ComponentError(f"{self.name} was not ready after {self._ready_seconds:g} s; {self._tail()}") from None

    def _tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()[-15:] if self.log_path.exists() else []
        return f"the end of {self.log_path}:\n" + "\n".join(lines)
