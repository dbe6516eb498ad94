"""Simulated engines as processes of their own, fast, on free loopback ports, and the command against them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

_READY_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running simulator."""

    mode: str
    url: str


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def engines(
    folder: Path, modes: Sequence[str], *, curve: Mapping[str, Any] | str, slots: Mapping[str, int], time_scale: float
) -> AsyncIterator[list[Engine]]:
    """One engine for each mode, ready. curve: a built-in one by name, or a document (images/sglang-sim/README.md)."""
    if not isinstance(curve, str):
        (folder / "curve.json").write_text(json.dumps(curve))
        curve = str(folder / "curve.json")
    settings = {
        "CURVE": curve, "TIME_SCALE": str(time_scale), "LOAD_SECONDS": "0", "WARMUP_SECONDS": "0", "DRAIN_CHECK_SECONDS": "0.1",
        "MIN_EVENT_SECONDS": "0.02", "TICK_SECONDS": "0.004", "FAULTS_ENDPOINT": "1",
    }  # fmt: skip
    environment = {**os.environ, **{f"SGLANG_SIM_{name}": value for name, value in settings.items()}, "SGL_FORCE_SHUTDOWN": "1"}
    found, processes = [], []
    try:
        for mode in modes:
            port = _free_port()
            words = ["serve", "--model-path", "m/tiny", "--port", str(port), "--enable-metrics", "--max-running-requests", str(slots[mode])]
            words += ["--speculative-algorithm", "NEXTN"] if mode == "mtp" else []
            processes.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "sglang_sim", *words, env=environment, stderr=asyncio.subprocess.DEVNULL
                )
            )
            found.append(Engine(mode=mode, url=f"http://127.0.0.1:{port}"))
        await asyncio.gather(*(_ready(engine) for engine in found))
        yield found
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(process.wait() for process in processes))


async def _ready(engine: Engine) -> None:
    async with asyncio.timeout(_READY_SECONDS), aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{engine.url}/ready") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


async def mtpilot(*words: str) -> Ran:
    """Run the command in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from mtpilot.cli.main import main; main()", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return Ran(code=process.returncode or 0, out=out.decode(), err=err.decode())
