"""HAProxy's runtime interface over its admin socket.

One short connection per call: HAProxy answers in under a millisecond, and a connection that is not kept cannot go stale
when HAProxy is restarted.
"""

import asyncio
import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtpilot.render.haproxy import AGAIN_SERVER, BACKEND, HOLD_SERVER, LANE, MODES_MAP_FILE
from mtpilot.render.haproxy_options import KEYS_MAP_FILE

from .desired import ActualPool, ActualServer
from .pods import ServerState
from .ports import Certificate, GatewayError
from .waiting import WaitingRequest, parse_classes, parse_streams, same_request

ANSWER_TIMEOUT_SECONDS = 2.0
COMMANDS_PER_CALL = 32  # a command line must fit HAProxy's buffer of 16 KiB
_SERVERS_AND_BACKEND = 6  # object types of `show stat`
_BACKEND_ROW = "BACKEND"
_NO_REPLICAS = frozenset({HOLD_SERVER, AGAIN_SERVER, _BACKEND_ROW})
_MAINT_BITS = 0x01 | 0x02 | 0x20  # forced, inherited, by name resolution; 0x04 only says how it began
_DRAIN_BITS = 0x08 | 0x10


@dataclass(frozen=True, slots=True)
class AdminSocket:
    """The admin socket at `path`."""

    path: Path

    async def pool(self) -> ActualPool:
        """Pool and lane as they are, in their order, without the servers that stand for no pod. Raises GatewayError."""
        engines, lane = [await self._backend(name) for name in (BACKEND, LANE)]
        return parse_pool(engines, lane, await self._ask(f"show map {MODES_MAP_FILE}"))

    async def _backend(self, name: str) -> "BackendTexts":
        """NB: only the second tells whether a server that does not answer its checks was told to drain."""
        return BackendTexts(
            stat=await self._ask(f"show stat {name} {_SERVERS_AND_BACKEND} -1"), state=await self._ask(f"show servers state {name}")
        )

    async def keys(self) -> dict[str, str]:
        """SHA-256 of an API key → its client's name. Raises GatewayError."""
        return parse_map(await self._ask(f"show map {KEYS_MAP_FILE}"))

    async def renew_certificate(self, certificate: Certificate) -> None:
        """Raises GatewayError, also where key and certificate do not belong together."""
        # NB: an empty line ends what follows "<<".
        pem = "\n".join(line for line in certificate.pem.splitlines() if line.strip())
        taken = await self._ask(f"set ssl cert {certificate.path} <<\n{pem}\n")
        done = await self._ask(f"commit ssl cert {certificate.path}")
        if "Success" not in done:
            await self._ask(f"abort ssl cert {certificate.path}")
            raise GatewayError(f"HAProxy does not take the certificate: {' '.join((taken + done).split())[:300]}")

    async def waiting(self, before: Iterable[WaitingRequest] = ()) -> tuple[WaitingRequest, ...]:
        """Requests without a replica; the classes of those that waited `before` are not asked for again. Raises GatewayError."""
        streams = parse_streams(await self._ask("show sess"))
        known = {request.stream.pointer: request for request in before}
        classes = {
            stream.pointer: known[stream.pointer].priority
            for stream in streams
            if stream.pointer in known and same_request(known[stream.pointer].stream, stream)
        }
        unknown = [f"show sess {stream.pointer}" for stream in streams if stream.pointer not in classes]
        classes |= parse_classes(await self.execute(unknown))
        return tuple(WaitingRequest(stream=stream, priority=classes[stream.pointer]) for stream in streams if stream.pointer in classes)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTexts:
    """HAProxy's answers about one backend: `show stat` and `show servers state`."""

    stat: str
    state: str


def parse_pool(engines: BackendTexts, lane: BackendTexts, modes: str = "") -> ActualPool:
    """Pool and lane from the answers about both, and `show map`. Raises GatewayError when they are something else."""
    servers, total = _parse_backend(engines)
    # NB: a request that is queued or between two attempts belongs to the backend, but to no server.
    waiting = max(0, total - sum(server.sessions for server in servers))
    return ActualPool(servers=servers, lane=_parse_backend(lane)[0], modes=parse_map(modes), waiting=waiting)


def parse_map(text: str) -> dict[str, str]:
    """Entries of `show map`: one a line, its address in memory, its key, its value."""
    return {words[1]: words[2] for line in text.splitlines() if len(words := line.split()) == 3}


def _parse_backend(texts: BackendTexts) -> tuple[tuple[ActualServer, ...], int]:
    """Servers, and the sessions of the whole backend."""
    if not texts.stat.startswith("# pxname,"):
        raise GatewayError(f"not statistics of a backend: {texts.stat.strip()[:200]!r}")
    rows = [row for row in csv.DictReader(io.StringIO(texts.stat.removeprefix("# ").strip())) if row.get("svname")]
    try:
        states = _states(texts.state)
        servers = tuple(_server(row, states[row["svname"]]) for row in rows if row["svname"] not in _NO_REPLICAS)
        total = next((int(row["scur"] or 0) for row in rows if row["svname"] == _BACKEND_ROW), 0)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise GatewayError(f"statistics that cannot be read: {error!r}") from error
    return servers, total


def _server(row: dict[str, str], state: ServerState) -> ActualServer:
    host, _, port = row["addr"].rpartition(":")
    return ActualServer(
        name=row["svname"],
        address=host.removeprefix("[").removesuffix("]"),
        port=int(port),
        maxconn=int(row["slim"] or 0),
        state=state,
        sessions=int(row["scur"] or 0),
        weight=int(row.get("uweight") or 1),
        backend=row["pxname"],
    )


def _states(text: str) -> dict[str, ServerState]:
    """What HAProxy was told of each server: a line of its version, then a header, then one line each."""
    lines = text.splitlines()
    names = lines[1].removeprefix("# ").split()
    name, admin = names.index("srv_name"), names.index("srv_admin_state")
    return {words[name]: _state(int(words[admin])) for line in lines[2:] if len(words := line.split()) > admin}


def _state(admin: int) -> ServerState:
    """From the bits of srv_admin_state."""
    if admin & _MAINT_BITS:
        return ServerState.MAINT
    return ServerState.DRAIN if admin & _DRAIN_BITS else ServerState.READY
