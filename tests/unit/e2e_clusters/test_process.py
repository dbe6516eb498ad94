"""Processes end with what they forked, and a pid file never leads to somebody else's process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from e2e.clusters.local.process import Process, read_pid_file, sweep

FAMILY = "sleep 600 & echo $!; exec sleep 600"


def alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def dies(pid: int) -> bool:
    """A signal is delivered soon, not at once."""
    for _ in range(500):
        if not alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


async def until(path: Path) -> int:
    async with asyncio.timeout(10):
        while not path.exists() or not path.read_text().strip():
            await asyncio.sleep(0.01)
    return int(path.read_text())


def start(folder: Path, script: str) -> Process:
    with (folder / "out").open("wb") as output:
        return Process.start(["sh", "-c", script], pid_file=folder / "one.pid", output=output)


async def test_exit_code_and_pid_file(tmp_path: Path) -> None:
    process = start(tmp_path, "sleep 0.2; exit 7")
    assert await process.wait() == 7
    assert not (tmp_path / "one.pid").exists()


async def test_stop_escalates_and_takes_the_children_along(tmp_path: Path) -> None:
    process = start(tmp_path, f"trap '' TERM; {FAMILY}")
    child = await until(tmp_path / "out")
    assert read_pid_file(tmp_path / "one.pid") == process.pid
    assert await process.stop(grace_seconds=0.2) == -signal.SIGKILL
    assert await dies(child)


async def test_program_that_cannot_run_exits_127(tmp_path: Path) -> None:
    process = Process.start([tmp_path / "absent"], pid_file=tmp_path / "one.pid", output=subprocess.DEVNULL)
    assert await process.wait() == 127


async def test_sweep_kills_what_is_recorded_and_spares_a_reused_pid(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        folder = tmp_path / "a"
        folder.mkdir()
        process = start(folder, FAMILY)
        child = await until(folder / "out")
        (tmp_path / "stale.pid").write_text(f"{other.pid} 1\n")
        (tmp_path / "broken.pid").write_text("x")
        assert sweep(tmp_path) == 1
        assert await process.wait() == -signal.SIGKILL
        assert await dies(child)
        assert alive(other.pid)
        assert list(tmp_path.rglob("*.pid")) == []
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
