"""A simulator in this process, on a free loopback port, for tests that want its state as well as its answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from aiohttp import web

from sglang_sim import curves, engine, faults, flags
from sglang_sim.routes import application
from sglang_sim.server import Server
from sglang_sim.settings import Settings

FAST = Settings(load_seconds=0.0, warmup_seconds=0.0, health_seconds=0.01, health_timeout_seconds=0.2, faults_endpoint=True)


@dataclass(slots=True)
class Running:
    server: Server
    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **kwargs: Any) -> tuple[int, str]:
        async with self.session.get(self.url + path, **kwargs) as response:
            return response.status, await response.text()

    async def post(self, path: str, body: Any, **kwargs: Any) -> tuple[int, Any]:
        async with self.session.post(self.url + path, json=body, **kwargs) as response:
            return response.status, await response.json(content_type=None)


def resolve(words: str, settings: Settings = FAST) -> engine.Engine:
    argv = ["--model-path", "m/tiny", *words.split()]
    return engine.resolve(flags.parse(argv), argv, curves.load(settings.curve), settings)


@asynccontextmanager
async def running(words: str = "--enable-metrics", **settings: Any) -> AsyncIterator[Running]:
    chosen = replace(FAST, **settings)
    server = Server(resolve(words, chosen), chosen, faults.at_start(chosen))
    runner = web.AppRunner(application(server), handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
    await server.load()
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        try:
            await server.warmed_up()
            yield Running(server, session, f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await server.stop()
            await session.close()
            await runner.cleanup()
