"""`python -m sglang_sim.bench`: what the simulator costs, and how well it keeps to its curve.

Starts replicas on loopback, keeps every stream busy from one plain asyncio client, and prints CPU per process, tokens per
second against the curve (the error of the mean step time) and events per second. Bounded in time and in connections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sglang_sim.curves import load
from sglang_sim.settings import from_environment

_HOST = "127.0.0.1"


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one replica's streams received in the measured window."""

    tokens: int = 0
    events: int = 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
        fields = stat.read().rsplit(b")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(_HOST, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\nConnection: close\r\n\r\n".encode())
    data = await reader.read()
    writer.close()
    return data


async def _wait_ready(port: int) -> None:
    for _ in range(200):
        try:
            if (await _get(port, "/ready")).startswith(b"HTTP/1.1 200"):
                return
        except OSError:
            pass
        await asyncio.sleep(0.1)
    raise TimeoutError(f"replica on port {port} is not ready")


async def _stream_forever(port: int, output_tokens: int, tally: Tally) -> None:
    """One stream after another on one connection; an event's words are its tokens."""
    body = json.dumps({"prompt": "a b c d", "max_tokens": output_tokens, "ignore_eos": True, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {_HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection(_HOST, port)
    try:
        while True:
            writer.write(head + body)
            while b"data: [DONE]" not in (line := await reader.readline()):
                if line.startswith(b"data: "):
                    tally.events += 1
                    tally.tokens += line.split(b'"text":"', 1)[1].split(b'"', 1)[0].count(b" ")
                elif not line:
                    raise ConnectionError("the replica closed the stream")
            while await reader.readline() != b"0\r\n":
                pass
            await reader.readline()
    finally:
        writer.close()


async def _start(mode: str, port: int, streams: int, interval: int) -> asyncio.subprocess.Process:
    words = ["serve", "--model-path", "bench", "--port", str(port), "--max-running-requests", str(streams)]
    words += ["--stream-interval", str(interval), "--enable-metrics"]
    if mode == "mtp":
        words += ["--speculative-algorithm", "NEXTN"]
    environment = {**os.environ, "SGLANG_SIM_LOAD_SECONDS": "0", "SGLANG_SIM_DRAIN_CHECK_SECONDS": "0.2", "SGL_FORCE_SHUTDOWN": "1"}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sglang_sim", *words, env=environment, stderr=asyncio.subprocess.DEVNULL
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement; CPU as shares of one core, rates per second."""

    cpu_per_replica: tuple[float, ...]
    cpu_client: float
    tokens_per_second: tuple[float, ...]
    expected_tokens_per_second: float
    events_per_second: float

    @property
    def step_time_errors(self) -> tuple[float, ...]:
        """Mean step time over the curve's, minus one, for each replica."""
        return tuple(self.expected_tokens_per_second / rate - 1 for rate in self.tokens_per_second)


async def measure(*, mode: str, replicas: int, streams: int, seconds: float, output_tokens: int, interval: int) -> Result:
    """Run `replicas` with `streams` busy streams each and measure `seconds` of it."""
    settings = from_environment()
    curve = load(settings.curve).modes[mode]
    ports = [_free_port() for _ in range(replicas)]
    processes = [await _start(mode, port, streams, interval) for port in ports]
    tallies = [Tally() for _ in ports]
    tasks: list[asyncio.Task[None]] = []
    try:
        await asyncio.gather(*(_wait_ready(port) for port in ports))
        for port, tally in zip(ports, tallies, strict=True):
            tasks += [asyncio.create_task(_stream_forever(port, output_tokens, tally)) for _ in range(streams)]
        await asyncio.sleep(2)
        for tally in tallies:
            tally.tokens = tally.events = 0
        cpu, began, own = [_cpu_seconds(process.pid) for process in processes], time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        wall, used = time.monotonic() - began, time.process_time() - own
        after = [_cpu_seconds(process.pid) for process in processes]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in processes:
            process.terminate()
        await asyncio.gather(*(process.wait() for process in processes))
    return Result(
        cpu_per_replica=tuple((b - a) / wall for a, b in zip(cpu, after, strict=True)),
        cpu_client=used / wall,
        tokens_per_second=tuple(tally.tokens / wall for tally in tallies),
        expected_tokens_per_second=curve.tokens_per_second(min(streams, curve.slots)) * settings.time_scale,
        events_per_second=sum(tally.events for tally in tallies) / wall,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print one measurement."""
    parser = argparse.ArgumentParser(prog="python -m sglang_sim.bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mode", choices=("batch", "mtp"), default="batch")
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--output-tokens", type=int, default=4000)
    parser.add_argument("--stream-interval", type=int, default=1)
    given = parser.parse_args(argv)
    result = asyncio.run(
        measure(
            mode=given.mode,
            replicas=given.replicas,
            streams=given.streams,
            seconds=given.seconds,
            output_tokens=given.output_tokens,
            interval=given.stream_interval,
        )
    )
    print(f"cpu per replica   {', '.join(f'{share:.1%}' for share in result.cpu_per_replica)} of one core; client {result.cpu_client:.1%}")
    print(
        f"tokens per second {', '.join(f'{rate:.0f}' for rate in result.tokens_per_second)}; curve {result.expected_tokens_per_second:.0f}"
    )
    print(f"step time error   {', '.join(f'{error:+.1%}' for error in result.step_time_errors)}")
    print(f"events per second {result.events_per_second:.0f}")


if __name__ == "__main__":
    main()
