"""HAProxy's runtime interface over its admin socket.

One short connection per call: HAProxy answers in under a millisecond, and a connection that is not kept cannot go stale
when HAProxy is restarted.
"""

import asyncio
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtpilot.render.haproxy import AGAIN_SERVER, BACKEND, HOLD_SERVER, LANE, MODES_MAP_FILE

from .desired import ActualPool, ActualServer
from .pods import ServerState
from .ports import GatewayError

ANSWER_TIMEOUT_SECONDS = 2.0
COMMANDS_PER_CALL = 32  # a command line must fit HAProxy's buffer of 16 KiB
_SERVERS_AND_BACKEND = 6  # object types of `show stat`
_BACKEND_ROW = "BACKEND"


@dataclass(frozen=True, slots=True)
class AdminSocket:
    """The admin socket at `path`."""

    path: Path

    async def pool(self) -> ActualPool:
        """Pool and lane as they are, in their order, without the servers that stand for no pod. Raises GatewayError."""
        answers = [
            await self._ask(f"show stat {BACKEND} {_SERVERS_AND_BACKEND} -1"),
            await self._ask(f"show stat {LANE} {_SERVERS_AND_BACKEND} -1"),
            await self._ask(f"show map {MODES_MAP_FILE}"),
        ]
        return parse_pool(*answers)

    async def execute(self, commands: Sequence[str]) -> str:
        """Run commands in order; the answers, one after the other. Raises GatewayError."""
        lines = [";".join(commands[start : start + COMMANDS_PER_CALL]) for start in range(0, len(commands), COMMANDS_PER_CALL)]
        answers = [await self._ask(line) for line in lines]
        return "\n".join(text for answer in answers if (text := answer.strip()))

    async def _ask(self, line: str) -> str:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(self.path))
                try:
                    writer.write(f"{line}\n".encode())
                    await writer.drain()
                    return (await reader.read()).decode(errors="replace")
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise GatewayError(f"HAProxy's admin socket does not answer: {error or type(error).__name__}") from error


def parse_pool(text: str, lane: str = "", modes: str = "") -> ActualPool:
    """The pool in `show stat`'s CSV of both backends and `show map`. Raises GatewayError when it is something else."""
    servers, total = _parse_backend(text)
    # NB: a request that is queued or between two attempts belongs to the backend, but to no server.
    waiting = max(0, total - sum(server.sessions for server in servers))
    # One entry a line: its address, its key, its value.
    entries = [words for line in modes.splitlines() if len(words := line.split()) == 3]
    return ActualPool(
        servers=servers,
        lane=_parse_backend(lane)[0] if lane else (),
        modes={key: mode for _, key, mode in entries},
        waiting=waiting,
    )


def _parse_backend(text: str) -> tuple[tuple[ActualServer, ...], int]:
    """Servers, and the sessions of the whole backend."""
    if not text.startswith("# pxname,"):
        raise GatewayError(f"not statistics of a backend: {text.strip()[:200]!r}")
    rows = [row for row in csv.DictReader(io.StringIO(text.removeprefix("# ").strip())) if row.get("svname")]
    try:
        servers = tuple(_server(row) for row in rows if row["svname"] not in {HOLD_SERVER, AGAIN_SERVER, _BACKEND_ROW})
        total = next((int(row["scur"] or 0) for row in rows if row["svname"] == _BACKEND_ROW), 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GatewayError(f"statistics that cannot be read: {error!r}") from error
    return servers, total


def _server(row: dict[str, str]) -> ActualServer:
    host, _, port = row["addr"].rpartition(":")
    return ActualServer(
        name=row["svname"],
        address=host.removeprefix("[").removesuffix("]"),
        port=int(port),
        maxconn=int(row["slim"] or 0),
        state=_state(row["status"]),
        sessions=int(row["scur"] or 0),
        weight=int(row.get("uweight") or 1),
        backend=row["pxname"],
    )


def _state(status: str) -> ServerState:
    """What HAProxy was told, from its status text: `no check`, `UP` and `DOWN` may take requests; MAINT may have a cause behind it."""
    if status.startswith("MAINT"):
        return ServerState.MAINT
    return ServerState.DRAIN if status.startswith("DRAIN") else ServerState.READY
