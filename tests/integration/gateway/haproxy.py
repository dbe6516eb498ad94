"""A real HAProxy with the rendered configuration, its own address and its own run directory."""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from mtpilot.gateway.admin_socket import AdminSocket
from mtpilot.gateway.ports import GatewayError
from mtpilot.render.gateway_pod import PID_FILE
from mtpilot.render.haproxy import ADMIN_SOCKET_FILE, CONFIG_FILE, MODES_MAP_FILE, RUN_DIR_ENV
from mtpilot.render.haproxy_options import KEYS_MAP_FILE, TLS_DIR_ENV


@dataclass(slots=True, kw_only=True)
class HAProxy:
    """HAProxy as the gateway's container runs it; `folder` stands for its mounts."""

    binary: Path
    folder: Path
    address: str
    config: str
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"{'https' if ' ssl crt ' in self.config else 'http'}://{self.address}:8080"

    @property
    def admin(self) -> AdminSocket:
        return AdminSocket(self.folder / ADMIN_SOCKET_FILE)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {RUN_DIR_ENV: str(self.folder), TLS_DIR_ENV: str(self.folder), "POD_IP": self.address}

    async def start(self) -> None:
        config = self.folder / CONFIG_FILE
        config.write_text(self.config)
        for name in (MODES_MAP_FILE, KEYS_MAP_FILE):
            (self.folder / name).touch()
        command = [str(self.binary), "-W", "-db", "-p", str(self.folder / PID_FILE), "-f", str(config)]
        with (self.folder / "haproxy.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*command, env=self.environment, stdout=log, stderr=log)
        async with asyncio.timeout(10), aiohttp.ClientSession() as session:
            while not await self._answers(session):
                assert self.process.returncode is None, (self.folder / "haproxy.log").read_text()
                await asyncio.sleep(0.02)

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        try:
            await self.admin.pool()
            async with session.get(f"{self.url}/healthz", ssl=False) as response:
                return response.status == 200
        except (GatewayError, aiohttp.ClientError):
            return False

    def worker(self) -> int:
        """Process id of the newest worker."""
        assert self.process is not None
        return max(child.pid for child in psutil.Process(self.process.pid).children())

    def reload(self) -> None:
        """A new worker with the configuration as it is now; the old one finishes what it has."""
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR2)

    async def kill(self) -> None:
        """SIGTERM, which HAProxy takes as an immediate stop."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
