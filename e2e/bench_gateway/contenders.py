"""What is compared: each starts in front of replicas, takes one out and in by its own documented way, and says what CPU it used.

Every contender is a black box behind an HTTP port. None is given what its own documentation would not have an administrator give.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp
import psutil

from e2e.bench_gateway.fleet import BenchError, Replica, poll
from e2e.clusters.local.process import Process

GATEWAY_PORT = 8080
READY_SECONDS = 30.0
END_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a contender may live: an address of its own, a folder, a client session, and the HAProxy binary."""

    address: str
    folder: Path
    session: aiohttp.ClientSession
    haproxy: Path

    @property
    def url(self) -> str:
        return f"http://{self.address}:{GATEWAY_PORT}"


class Contender(Protocol):
    """One way to route. `removal` says in a sentence how a replica is taken out of it."""

    removal: str

    @property
    def urls(self) -> tuple[str, ...]:
        """Where clients send requests, in turn."""
        ...

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes in the data path, without their children."""
        ...

    async def start(self, replicas: Sequence[Replica]) -> None:
        """Start in front of replicas that are ready, and wait until all of them take requests."""
        ...

    async def remove(self, replica: Replica) -> None:
        """Send nothing new to it; returns once that is so."""
        ...

    async def add(self, replica: Replica) -> None:
        """Send requests to it again, in the mode that it now has; returns once that is so."""
        ...

    async def stop(self) -> None:
        """End what was started."""
        ...


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system seconds of the processes and their children so far."""
    total = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            times = one.cpu_times()
            total += times.user + times.system
    return total


@dataclass(slots=True, kw_only=True)
class Direct:
    """No gateway: clients take the replicas in turn."""

    removal: str = "none: clients have a fixed list; the engine is sent SIGTERM and, 3 s later, SIGKILL"
    _urls: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        return self._urls

    @property
    def pids(self) -> tuple[int, ...]:
        return ()

    async def start(self, replicas: Sequence[Replica]) -> None:
        self._urls = tuple(replica.url for replica in replicas)

    async def remove(self, replica: Replica) -> None:
        """Clients are not told."""

    async def add(self, replica: Replica) -> None:
        """Clients never left it."""

    async def stop(self) -> None:
        """There is nothing to end."""


@dataclass(slots=True, kw_only=True)
class OneProcess:
    """What the contenders share that are one process at one place: where it listens, which it is, and its end."""

    place: Place
    _process: Process | None = field(default=None, init=False)

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.place.url,)

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,) if self._process else ()

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self._process is not None:
            await self._process.stop(grace_seconds=END_SECONDS)


_PLAIN_CONFIG = """\
global
    maxconn 8000
    nbthread 1
    stats socket {folder}/admin.sock mode 600 level admin
defaults
    mode http
    option http-no-delay
    timeout connect 5s
    timeout queue 60s
    timeout client 10m
    timeout server 10m
frontend openai
    bind {address}:{port}
    default_backend engines
backend engines
    balance leastconn
{servers}
"""


@dataclass(slots=True, kw_only=True)
class PlainHAProxy(OneProcess):
    """HAProxy as its manual has it for streams: least-conn, the engines' slots as maxconn, connections to servers kept, no delay."""

    removal: str = "runtime API: `set server … state drain`, later `set maxconn server …` and `set server … state ready`"

    async def start(self, replicas: Sequence[Replica]) -> None:
        place = self.place
        place.folder.mkdir(parents=True, exist_ok=True)
        servers = "\n".join(
            f"    server {replica.name} {replica.url.removeprefix('http://')} maxconn {replica.slots}" for replica in replicas
        )
        config = place.folder / "plain.cfg"
        config.write_text(_PLAIN_CONFIG.format(folder=place.folder, address=place.address, port=GATEWAY_PORT, servers=servers))
        self._process = launch([place.haproxy, "-db", "-f", config], place, "haproxy")
        await until_open(place)

    async def remove(self, replica: Replica) -> None:
        await self._say(f"set server engines/{replica.name} state drain")

    async def add(self, replica: Replica) -> None:
        await self._say(f"set maxconn server engines/{replica.name} {replica.slots};set server engines/{replica.name} state ready")

    async def _say(self, command: str) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self.place.folder / "admin.sock"))
        writer.write(f"{command}\n".encode())
        await writer.drain()
        answer = (await reader.read()).decode().strip()
        writer.close()
        if answer:
            raise BenchError(f"HAProxy did not take {command!r}: {answer}")


def launch(command: Sequence[str | Path], place: Place, name: str, environment: dict[str, str] | None = None) -> Process:
    """Start a contender's process with its log in its folder."""
    with (place.folder / f"{name}.log").open("ab") as log:
        return Process.start(command, pid_file=place.folder / f"{name}.pid", output=log, environment=os.environ | (environment or {}))


async def until_open(place: Place) -> None:
    """Until something listens at the contender's port."""

    async def open_() -> bool:
        try:
            _, writer = await asyncio.open_connection(place.address, GATEWAY_PORT)
        except OSError:
            return False
        writer.close()
        return True

    await poll(open_, READY_SECONDS, f"{place.url} to listen")
