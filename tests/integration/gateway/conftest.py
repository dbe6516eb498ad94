"""A gateway per test, on loopback addresses of its own."""

import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.toolchain import ensure
from mtpilot.render.haproxy import haproxy_config
from tests.integration.gateway.engine import Engine
from tests.integration.gateway.haproxy import HAProxy
from tests.integration.gateway.stage import Stage
from tests.unit.render.samples import service, small_spec

MOST_REPLICAS = 64  # of a spec; its pool has a server for a hundred pods and more

# NB: 127.64.0.0 and up; pods of the local cluster live lower. The process id keeps parallel test runs apart.
_numbers = itertools.count(1)


def fresh_address() -> str:
    number = next(_numbers)
    return f"127.{64 + os.getpid() % 128}.{number // 250}.{number % 250 + 1}"


@pytest.fixture(scope="session")
def haproxy_binary() -> Path:
    return ensure(["haproxy"])["haproxy"]


@pytest.fixture
async def new_engine() -> AsyncIterator[Callable[..., Awaitable[Engine]]]:
    engines: list[Engine] = []

    async def start(*, address: str | None = None, answers: bool = False, **engine_fields: Any) -> Engine:
        engine = Engine(address=address or fresh_address(), **engine_fields)
        if answers:
            engine.gate.set()
        await engine.start()
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        engine.gate.set()
        await engine.stop()


@pytest.fixture
async def new_stage(haproxy_binary: Path) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """Start a gateway; `gateway` is the spec's part, `change` is made to the text of its configuration, `prepare`
    fills its folder.

    The agent is not started where `agent` is False.
    """
    stages: list[Stage] = []

    async def start(
        *,
        queue_timeout: str = "30s",
        replicas: int = 2,
        agent: bool = True,
        change: Callable[[str], str] = str,
        prepare: Callable[[Path], None] = lambda _: None,
        engine_env: dict[str, str] | None = None,
        **gateway: Any,
    ) -> Stage:
        engine = {"env": [{"name": name, "value": value} for name, value in (engine_env or {}).items()]}
        spec = service(small_spec(replicas=replicas, gateway={"replicas": 1, "queueTimeout": queue_timeout, **gateway}, engine=engine)).spec
        folder = Path(tempfile.mkdtemp(prefix="gateway-"))  # NB: a socket's path has at most 107 bytes; tmp_path may be longer
        prepare(folder)
        haproxy = HAProxy(binary=haproxy_binary, folder=folder, address=fresh_address(), config=change(haproxy_config("chat", spec)))
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30), connector=aiohttp.TCPConnector(limit=0))
        stage = Stage(haproxy=haproxy, session=session)
        stages.append(stage)
        await haproxy.start()
        if agent:
            await stage.start_agent()
        return stage

    yield start
    for stage in stages:
        await stage.stop_agent()
        await stage.session.close()
        await stage.haproxy.kill()
        shutil.rmtree(stage.haproxy.folder)


@pytest.fixture
async def stage(new_stage: Callable[..., Awaitable[Stage]]) -> Stage:
    return await new_stage()
