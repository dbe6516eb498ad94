"""`/metrics` of the operator, in the event loop: a thread of its own would answer happily while the loop is wedged."""

from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest


@dataclass(slots=True)
class MetricsEndpoint:
    """An HTTP server for one registry; `port` 0 takes a free one, which `start()` returns."""

    registry: CollectorRegistry
    host: str
    port: int
    _runner: web.AppRunner | None = field(default=None, init=False)

    async def start(self) -> int:
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
