"""Two thousand open streams over a hundred replicas behind one gateway: all whole, and what HAProxy and the agent need for it."""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from mtpilot.gateway.pods import ServerState
from tests.integration.gateway.conftest import MOST_REPLICAS, fresh_address
from tests.integration.gateway.engine import PORT
from tests.integration.gateway.stage import Stage, until
from tests.unit.gateway.pods import pod

STREAMS, REPLICAS = 2000, 100
ROUNDS = 3
SLOTS = STREAMS // REPLICAS
MOST_BYTES = 300 * 2**20
ROOT = Path(__file__).parents[3]
EVENT, END = b"6\r\ndata: \r\n", b"0\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + EVENT
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


@dataclass(slots=True)
class Engines:
    """One server at all addresses; a stream has one event at once and its end when `ended` is set."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    streams: list[asyncio.StreamWriter] = field(default_factory=list)

    def by_address(self) -> Counter[str]:
        return Counter(writer.get_extra_info("sockname")[0] for writer in self.streams)

    def send(self) -> None:
        """One more event on every stream."""
        for writer in self.streams:
            writer.write(EVENT)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                await reader.readexactly(2)
                self.streams.append(writer)
                writer.write(ANSWER)
                await self.ended.wait()
                writer.write(END)
        writer.close()


@contextlib.asynccontextmanager
async def agent(stage: Stage, addresses: list[str]) -> AsyncIterator[int]:
    """The agent as a process of its own; gives its id once all replicas take requests."""
    pods = stage.haproxy.folder / "pods.json"
    pods.write_text(json.dumps([pod(f"chat-r{number}", address, slots=SLOTS) for number, address in enumerate(addresses)]))
    command = [sys.executable, "-m", "tests.integration.gateway.agent_process", str(stage.haproxy.admin.path), str(pods)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL)

    async def all_there() -> bool:
        return sum(server.state is ServerState.READY for server in (await stage.haproxy.admin.pool()).servers) == REPLICAS

    try:
        await until(all_there, 20)
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def test_two_thousand_streams_over_a_hundred_replicas(new_stage) -> None:
    stage = await new_stage(agent=False, replicas=MOST_REPLICAS)
    engines, addresses = Engines(), [fresh_address() for _ in range(REPLICAS)]
    server = await asyncio.start_server(engines.serve, addresses, PORT, backlog=1024)
    async with server, agent(stage, addresses) as agent_pid:
        clients = []
        for _ in range(STREAMS // 100):
            clients += await asyncio.gather(*(asyncio.open_connection(stage.haproxy.address, 8080) for _ in range(100)))
            for _, writer in clients[-100:]:
                writer.write(REQUEST)
        async with asyncio.timeout(20):
            heads = await asyncio.gather(*(reader.readuntil(EVENT) for reader, _ in clients))
        assert all(head.startswith(b"HTTP/1.1 200") for head in heads)
        assert engines.by_address() == dict.fromkeys(addresses, SLOTS), "by least connections, and no more than the slots"
        for _ in range(ROUNDS):
            engines.send()
            await asyncio.sleep(0.5)  # and the agent looks at HAProxy with all of them open
        master = psutil.Process(stage.haproxy.process.pid)
        used = {process.pid: process.memory_info().rss for process in (master, *master.children(), psutil.Process(agent_pid))}
        print(f"Resident memory in MiB: {[round(rss / 2**20) for rss in used.values()]}, together {sum(used.values()) / 2**20:.0f}")
        assert sum(used.values()) < MOST_BYTES, used
        engines.ended.set()
        async with asyncio.timeout(20):
            rests = await asyncio.gather(*(reader.read() for reader, _ in clients))
        assert {(rest.count(b"data: "), rest.endswith(END)) for rest in rests} == {(ROUNDS, True)}
        for _, writer in clients:
            writer.close()
