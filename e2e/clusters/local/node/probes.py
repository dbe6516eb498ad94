"""Probes and hooks against a container: HTTP, TCP, command, sleep.

HTTP is spoken directly: dozens of pods are probed every few seconds on two cores, and a probe needs nothing but a status line. As with a
kubelet each probe is a new connection, 200 to 399 is success, and the time-out covers all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.clusters.local.process import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What probes and hooks of a container act on."""

    address: str
    ports: Mapping[str, int]
    execute: Callable[[Sequence[str]], Awaitable[int]]

    def port(self, port: int | str) -> int:
        """Give a port by number or by its name in the container's list; LookupError for an unknown name."""
        return self.ports[port] if isinstance(port, str) and not port.isdigit() else int(port)


async def act(action: Mapping[str, Any], target: Target) -> str | None:
    """Run one probe or hook action; None means success, a text says what failed. Time-outs are the caller's."""
    try:
        if "httpGet" in action:
            return await _http_get(action["httpGet"], target)
        if "tcpSocket" in action:
            tcp = action["tcpSocket"]
            _, writer = await asyncio.open_connection(tcp.get("host") or target.address, target.port(tcp["port"]))
            writer.close()
        elif "exec" in action:
            code = await target.execute(action["exec"]["command"])
            return None if code == 0 else f"command exited with {code}"
        elif "sleep" in action:
            await asyncio.sleep(action["sleep"]["seconds"])
    except (OSError, ValueError, LookupError, asyncio.IncompleteReadError) as error:
        return str(error) or type(error).__name__
    return None


async def check(probe: Mapping[str, Any], target: Target) -> str | None:
    """Run one probe within its time-out; None means success."""
    seconds = probe.get("timeoutSeconds", 1)
    try:
        async with asyncio.timeout(seconds):
            return await act(probe, target)
    except TimeoutError:
        return f"no answer within {seconds} s"


async def _http_get(get: Mapping[str, Any], target: Target) -> str | None:
    host, port = get.get("host") or target.address, target.port(get["port"])
    context = _unverified() if get.get("scheme") == "HTTPS" else None
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
    headers |= {header["name"]: header["value"] for header in get.get("httpHeaders", [])}
    lines = [f"GET {get.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write("\r\n".join(lines).encode())
        status_line = (await reader.readline()).split(maxsplit=2)
    finally:
        writer.close()
    if len(status_line) < 2 or not status_line[1].isdigit():
        return "no HTTP answer"
    code = int(status_line[1])
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def execute(command: Sequence[str], *, environment: Mapping[str, str], folder: Path, pid_file: Path) -> int:
    """Run a command beside a container and give its exit code; it is killed when the caller gives up on it."""
    process = Process.start(command, pid_file=pid_file, output=subprocess.DEVNULL, environment=environment, folder=folder)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.send(signal.SIGKILL)
        with contextlib.suppress(asyncio.CancelledError):
            await process.wait()
        raise
