"""A client of tiny answers that costs less than the gateway it measures: blocking sockets, one process, kept connections.

`python -m e2e.bench_gateway.client` reads one plan from standard input and prints one JSON object. It is bounded in count and in
time, and goes to loopback addresses only.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from e2e.load.exchange import PATH, Target, parse_target

MAX_REQUESTS = 200_000
MAX_SECONDS = 60.0
SOCKET_SECONDS = 10.0
_BODY = b'{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":1}'
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"
_CHUNKED = b"transfer-encoding: chunked"
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to send.

    blocks: each a list of base URLs, which its connections take in turn. Blocks take turns too, so that a change of the machine's
    speed meets all of them alike.
    connections: 1 sends one request at a time and gives each one's latency; more keep all connections busy and give a rate.
    """

    blocks: tuple[tuple[str, ...], ...]
    connections: int
    requests_per_block: int
    rounds: int = 1
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        total = len(self.blocks) * self.rounds * self.requests_per_block
        if not 0 < total <= MAX_REQUESTS or not 0 < self.max_seconds <= MAX_SECONDS:
            raise ValueError(f"{total} requests in {self.max_seconds:.0f} s: at most {MAX_REQUESTS} in {MAX_SECONDS:.0f} s")

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        return cls(**{**document, "blocks": tuple(tuple(block) for block in document["blocks"])})

    def document(self) -> dict[str, Any]:
        return asdict(self)


def answer_end(data: bytes | bytearray) -> int | None:
    """Where one HTTP/1.1 answer in `data` ends; None while it is not whole."""
    head_end = data.find(_END_OF_HEAD)
    if head_end < 0:
        return None
    head = bytes(data[:head_end]).lower()
    body_at = head_end + len(_END_OF_HEAD)
    at = head.find(_LENGTH)
    if at >= 0:
        end = body_at + int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        return end if len(data) >= end else None
    if _CHUNKED in head:
        last = data.find(b"\r\n" + _LAST_CHUNK, body_at - 2)
        return None if last < 0 else last + 2 + len(_LAST_CHUNK)
    raise ValueError(f"an answer without a length: {head[:200]!r}")


def request(target: Target) -> bytes:
    """The smallest chat request."""
    lines = (
        f"POST {PATH} HTTP/1.1",
        f"Host: {target.host}:{target.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(_BODY)}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + _BODY


class Connection:
    """One kept connection; opened anew where the other side closed it between two requests."""

    def __init__(self, target: Target) -> None:
        self._target, self._payload = target, request(target)
        self.reopened = -1
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection((self._target.host, self._target.port), timeout=SOCKET_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.reopened += 1

    def send(self) -> None:
        """Send one request."""
        self.received.clear()
        self.socket.sendall(self._payload)

    def take(self) -> bool | None:
        """Read what is there: whether the answer was a 200, or None while it is not whole. OSError where the connection broke."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionResetError("closed before the answer")
        self.received += data
        end = answer_end(self.received)
        if end is None:
            return None
        good = self.received.startswith(b"HTTP/1.1 200")
        if b"connection: close" in self.received[: self.received.find(_END_OF_HEAD)].lower():
            self.close()
            self._open()
        return good

    def renew(self) -> None:
        """Open a new connection in place of a broken one."""
        self.close()
        self._open()

    def close(self) -> None:
        self.socket.close()


def latencies(target: Target, count: int, until: float) -> tuple[list[float], int]:
    """Seconds of each of `count` requests, sent one after the other on one connection, and how many failed."""
    connection, seconds, failed = Connection(target), [], 0
    clock = time.perf_counter
    try:
        for _ in range(count):
            began = clock()
            if began > until:
                break
            try:
                connection.send()
                while (good := connection.take()) is None:
                    pass
            except OSError:
                good = False
                connection.renew()
            if good:
                seconds.append(clock() - began)
            else:
                failed += 1
    finally:
        connection.close()
    return seconds, failed


def rate(targets: Sequence[Target], connections: int, count: int, until: float) -> tuple[int, int, float]:
    """Keep `connections` connections busy until `count` answers have come: answers, failures, seconds."""
    poll = select.epoll()
    by_number: dict[int, Connection] = {}
    began = time.perf_counter()
    done = failed = 0
    try:
        for index in range(connections):
            connection = Connection(targets[index % len(targets)])
            by_number[connection.socket.fileno()] = connection
            poll.register(connection.socket, select.EPOLLIN)
            connection.send()
        while done + failed < count and time.perf_counter() < until:
            for number, _ in poll.poll(1.0):
                connection = by_number[number]
                try:
                    good = connection.take()
                except OSError:
                    good = False
                    connection.renew()
                if good is None:
                    continue
                done, failed = done + good, failed + (not good)
                if connection.socket.fileno() != number or by_number.get(number) is not connection:
                    del by_number[number]
                    by_number[connection.socket.fileno()] = connection
                if connection.reopened and not _registered(poll, connection):
                    poll.register(connection.socket, select.EPOLLIN)
                connection.send()
    finally:
        poll.close()
        for connection in by_number.values():
            connection.close()
    return done, failed, time.perf_counter() - began


def _registered(poll: select.epoll, connection: Connection) -> bool:
    try:
        poll.modify(connection.socket, select.EPOLLIN)
    except FileNotFoundError:
        return False
    return True


def run(plan: Plan) -> dict[str, Any]:
    """Carry out a plan: per block the latencies (one connection) or the rate, and the failures."""
    until = time.perf_counter() + plan.max_seconds
    blocks = [[parse_target(url) for url in block] for block in plan.blocks]
    results: list[dict[str, Any]] = [{"seconds": [], "answers": 0, "failed": 0, "wall_seconds": 0.0} for _ in blocks]
    for _ in range(plan.rounds):
        for targets, result in zip(blocks, results, strict=True):
            if plan.connections == 1:
                seconds, failed = latencies(targets[0], plan.requests_per_block, until)
                result["seconds"] += seconds
                result["answers"] += len(seconds)
            else:
                done, failed, wall = rate(targets, plan.connections, plan.requests_per_block, until)
                result["answers"] += done
                result["wall_seconds"] += wall
            result["failed"] += failed
    return {"blocks": results, "cpu_seconds": time.process_time()}


def main() -> None:
    """Plan in, result out."""
    print(json.dumps(run(Plan.from_document(json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
