"""Engines that answer at once, for what a gateway itself costs: an HAProxy that returns fixed answers, far faster than any gateway here.

The answers to the questions that routers ask of a new worker are a real simulator's, kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from e2e.bench_gateway.contenders import END_SECONDS
from e2e.bench_gateway.fleet import PORT, Replica, poll
from e2e.clusters.local.process import Process

SLOTS = 512
_ASKED = ("/server_info", "/get_server_info", "/model_info", "/get_model_info", "/v1/models", "/v1/loads")
_ANSWER = (
    '{"id":"0","object":"chat.completion","created":0,"model":"sim","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},'
    '"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
_CONFIG = """\
global
    maxconn 4000
    nbthread 1
    tune.bufsize 131072
defaults
    mode http
    timeout connect 5s
    timeout client 10m
    timeout server 10m
frontend engine
{binds}
    http-request wait-for-body time 5s if METH_POST
    http-request return status 200 content-type application/json string '{answer}' if METH_POST
{asked}
    http-request return status 200
"""


@dataclass(slots=True, kw_only=True)
class InstantEngines:
    """One process that listens at all addresses; replicas of it look like any other to a contender."""

    haproxy: Path
    folder: Path
    replicas: tuple[Replica, ...] = ()
    _process: Process | None = field(default=None, init=False)

    async def start(self, session: aiohttp.ClientSession, like: Sequence[Replica], addresses: Sequence[str]) -> None:
        """Answer like the given real replicas; slots are such that nothing waits for one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.replicas = tuple(
            Replica(name=f"chat-r{index}", address=address, mode=one.mode, slots=SLOTS)
            for index, (one, address) in enumerate(zip(like, addresses, strict=True))
        )
        rules = []
        for number, path in enumerate(_ASKED):
            async with session.get(f"{like[0].url}{path}") as response:
                file = self.folder / f"{number}.json"
                text = await response.text()
            # As many slots as no measurement fills, so that no contender queues for one.
            file.write_text(re.sub(r'"max_running_requests": ?\d+', f'"max_running_requests": {SLOTS}', text))
            rules.append(f"    http-request return status 200 content-type application/json file {file} if {{ path {path} }}")
        binds = "\n".join(f"    bind {replica.address}:{PORT}" for replica in self.replicas)
        config = self.folder / "instant.cfg"
        config.write_text(_CONFIG.format(binds=binds, answer=_ANSWER, asked="\n".join(rules)))
        with (self.folder / "instant.log").open("ab") as log:
            self._process = Process.start([self.haproxy, "-db", "-f", config], pid_file=self.folder / "instant.pid", output=log)

        async def open_() -> bool:
            try:
                async with session.get(f"{self.replicas[0].url}/health") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        await poll(open_, 10.0, "the instant engines to listen")

    async def stop(self) -> None:
        if self._process is not None:
            await self._process.stop(grace_seconds=END_SECONDS)
