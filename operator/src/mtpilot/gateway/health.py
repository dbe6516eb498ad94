"""The agent's HTTP side: probes and metrics, on the pod's own address."""

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .agent import Agent

READY_PATH = "/healthz"
ALIVE_PATH = "/livez"


def health_app(agent: Agent) -> web.Application:
    """`/healthz`: HAProxy had its servers once. `/livez`: the loop turns. `/metrics`."""

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok") if agent.ready else web.Response(status=503, text="HAProxy has no servers from us yet")

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok") if agent.alive else web.Response(status=503, text="the loop has stopped turning")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(agent.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get(READY_PATH, ready), web.get(ALIVE_PATH, alive), web.get("/metrics", metrics)])
    return app
