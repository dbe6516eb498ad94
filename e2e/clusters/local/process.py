"""One child process: recorded by a pid file, awaited without threads, signalled only while it is surely itself.

Pids are reused. A pid file therefore carries the start time as well, and whoever cleans up after a crash compares both before it sends
a signal. A child is a session leader, so that what it forked can be ended with it once it is gone itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from e2e.clusters.local import launch

_LAUNCHER = str(Path(launch.__file__))


class Process:
    """A running or finished child; `exit_code` is negative for a signal, as in subprocess."""

    def __init__(self, popen: subprocess.Popen[bytes], pid_file: Path) -> None:
        self._popen = popen
        self._pid_file = pid_file
        self._exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(popen.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    @classmethod
    def start(
        cls,
        command: Sequence[str | Path],
        *,
        pid_file: Path,
        output: IO[bytes] | int,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        die_with_parent: bool = True,
    ) -> Process:
        """Start a program in a session of its own; a program that cannot be run shows as exit code 127.

        Call from the main thread: the kernel ties the signal on a parent's death to the thread that forked.
        """
        parent = os.getpid() if die_with_parent else 0
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        launcher = [sys.executable, "-I", "-S", _LAUNCHER, str(parent), str(int(signal.SIGKILL)), str(pid_file)]
        popen = subprocess.Popen(
            [*launcher, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=None if environment is None else dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        return cls(popen, pid_file)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._popen.returncode

    def send(self, number: signal.Signals) -> None:
        """Signal the process itself, not its group; nothing happens when it is gone."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def wait(self) -> int:
        """Wait for the end and give the exit code."""
        await self._exited.wait()
        return self._popen.returncode

    async def stop(self, *, grace_seconds: float) -> int:
        """SIGTERM, then SIGKILL after the grace; gives the exit code."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        except TimeoutError:
            self.send(signal.SIGKILL)
            return await self.wait()

    def _reap(self) -> None:
        _kill_group(self.pid)  # before the wait: while its leader is a zombie, the group's number cannot be taken by others
        if self._popen.poll() is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pid_file.unlink(missing_ok=True)
        self._exited.set()


def read_pid_file(path: Path) -> int | None:
    """Give the pid of a pid file if that very process still runs, else None."""
    recorded = _parse(path)
    return recorded[0] if recorded is not None and _start_time(recorded[0]) == recorded[1] else None


def sweep(folder: Path) -> int:
    """Kill whatever the pid files under `folder` still name, with the children that outlived it; gives how many groups there were.

    A session's number is not given out again while the session has a process. So a number that no process has, or that the recorded
    process still has, is ours; one that a later process has is left alone.
    """
    count = 0
    for path in sorted(folder.rglob("*.pid")):
        recorded = _parse(path)
        if recorded is not None and _start_time(recorded[0]) in {None, recorded[1]}:
            count += _kill_group(recorded[0])
        path.unlink(missing_ok=True)
    return count


def _parse(path: Path) -> tuple[int, str] | None:
    try:
        pid, started = path.read_text().split()
        return int(pid), started
    except (OSError, ValueError):
        return None


def _start_time(pid: int) -> str | None:
    try:
        return launch.start_time(pid)
    except OSError:
        return None


def _kill_group(leader: int) -> bool:
    """Kill a session leader's process group: a container's or component's own children; tells whether there was any."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True
