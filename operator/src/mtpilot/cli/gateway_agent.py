"""`mtpilot gateway-agent`: run the agent beside HAProxy in a gateway pod."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import structlog
import typer

from mtpilot.model.names import AGENT_PORT, selector
from mtpilot.ports import ClusterError
from mtpilot.render.haproxy import NOTHING_WAITS_FILE

_log = structlog.get_logger(__name__)


def gateway_agent(
    service: Annotated[str, typer.Option(help="Name of the InferenceService.")],
    namespace: Annotated[str, typer.Option(help="Its namespace.")],
    socket: Annotated[Path, typer.Option(help="HAProxy's admin socket.")],
    host: Annotated[str, typer.Option(envvar="POD_IP", help="Address of probes and metrics.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of probes and metrics; 0 takes a free one.")] = AGENT_PORT,
) -> None:
    """Keep HAProxy's servers equal to the engine pods of a service."""
    try:
        asyncio.run(_run(service=service, namespace=namespace, socket=socket, host=host, port=port))
    except ClusterError as error:
        _log.error("agent cannot start", error=str(error))
        raise typer.Exit(1) from error


async def _run(*, service: str, namespace: str, socket: Path, host: str, port: int) -> None:
    # NB: imported here, so that no other subcommand waits for a Kubernetes client.
    import aiohttp
    from aiohttp import web

    from mtpilot.adapters.kube.pod_watch import PodWatch
    from mtpilot.gateway.admin_socket import AdminSocket
    from mtpilot.gateway.agent import Agent
    from mtpilot.gateway.health import health_app
    from mtpilot.gateway.loads import HttpEngineSlots

    watch = await PodWatch.connect(namespace=namespace, label_selector=selector(service))
    async with watch, aiohttp.ClientSession() as session:
        agent = Agent(
            watch=watch, gateway=AdminSocket(socket), engines=HttpEngineSlots(session), nothing_waits=socket.with_name(NOTHING_WAITS_FILE)
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, agent.stop)
        runner = web.AppRunner(health_app(agent), access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            _log.info("agent started", service=service, namespace=namespace, socket=str(socket), host=host, port=port)
            await agent.run()
        finally:
            await runner.cleanup()
