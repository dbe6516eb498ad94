"""The operator as a process of its own, under its service account's token, with its log in a file.

It gets nothing that a pod of it would not have: a kubeconfig with a bearer token, the address of Prometheus, and the rights
of `e2e/manifests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_STOP_SECONDS = 15.0


class OperatorEndedError(RuntimeError):
    """The operator's process ended by itself; the message has the end of its log."""


@dataclass(slots=True)
class Operator:
    """A running operator."""

    process: asyncio.subprocess.Process
    log: Path

    def check(self) -> None:
        """Raise OperatorEndedError if it is gone."""
        if self.process.returncode is not None:
            raise OperatorEndedError(f"the operator ended with code {self.process.returncode}:\n{self.log.read_text()[-2000:]}")

    def cpu_seconds(self) -> float:
        """CPU that it has used so far."""
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(times.user + times.system)


@contextlib.asynccontextmanager
async def operator(arguments: Sequence[str], *, kubeconfig: Path, log: Path) -> AsyncIterator[Operator]:
    """Run `mtpilot run` with `arguments` until the end of the block; SIGTERM ends it, SIGKILL after 15 s."""
    command = [str(Path(sys.executable).parent / "mtpilot"), "run", *arguments]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=output, stderr=asyncio.subprocess.STDOUT
        )
    try:
        yield Operator(process, log)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
