"""`mtpilot gateway-agent`: run the agent beside HAProxy in a gateway pod."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtpilot.model.names import AGENT_PORT
from mtpilot.ports import ClusterError

from . import exits

if TYPE_CHECKING:
    from mtpilot.gateway.agent import Agent


def gateway_agent(
    *,
    service: Annotated[str, typer.Option(help="Name of the InferenceService.")],
    namespace: Annotated[str, typer.Option(help="Its namespace.")],
    socket: Annotated[Path, typer.Option(help="HAProxy's admin socket.")],
    host: Annotated[str, typer.Option(envvar="POD_IP", help="Address of probes and metrics.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of probes and metrics; 0 takes a free one.")] = AGENT_PORT,
    routing: Annotated[Path | None, typer.Option(help="Folder with the routing limits that the operator publishes.")] = None,
    api_keys: Annotated[Path | None, typer.Option(help="Folder with one file for each client, its API key in it.")] = None,
    tls: Annotated[Path | None, typer.Option(help="Folder with tls.crt and tls.key, as HAProxy has it mounted.")] = None,
    log_format: Annotated[str, typer.Option(help="json, or text for a person.")] = "json",
) -> None:
    """Keep HAProxy's servers equal to the engine pods of a service."""
    from mtpilot.telemetry.logs import LogFormat, configure_logs

    if log_format not in set(LogFormat):
        exits.leave(f"no such log format: {log_format}", exits.USAGE)
    configure_logs(LogFormat(log_format))
    try:
        asyncio.run(
            _run(service=service, namespace=namespace, socket=socket, host=host, port=port, routing=routing, api_keys=api_keys, tls=tls)
        )
    except (ClusterError, OSError) as error:
        exits.leave(str(error), exits.FAILED)


async def _run(
    *, service: str, namespace: str, socket: Path, host: str, port: int, routing: Path | None, api_keys: Path | None, tls: Path | None
) -> None:
    # NB: imported here, so that other subcommands start without the HTTP and Kubernetes libraries.
    import aiohttp

    from mtpilot.adapters.kube.pod_watch import PodWatch
    from mtpilot.gateway.admin_socket import AdminSocket
    from mtpilot.gateway.agent import Agent
    from mtpilot.gateway.certificate import FileCertificates
    from mtpilot.gateway.keys import FileApiKeys
    from mtpilot.gateway.limits import FileLimits
    from mtpilot.gateway.loads import HttpEngineSlots
    from mtpilot.model.names import LABEL_SERVICE
    from mtpilot.render.haproxy import NOTHING_WAITS_FILE

    watch = await PodWatch.connect(namespace=namespace, label_selector=f"{LABEL_SERVICE}={service}")
    async with watch, aiohttp.ClientSession() as session:
        agent = Agent(
            watch=watch,
            gateway=AdminSocket(socket),
            engines=HttpEngineSlots(session),
            nothing_waits=socket.with_name(NOTHING_WAITS_FILE),
            limits=FileLimits(routing) if routing is not None else None,
            keys=FileApiKeys(api_keys) if api_keys is not None else None,
            certificates=FileCertificates(tls) if tls is not None else None,
            address=host,
        )
        await _serve(agent, host, port)


async def _serve(agent: "Agent", host: str, port: int) -> None:
    """The agent and its health port, until a signal."""
    from signal import SIGINT, SIGTERM

    from aiohttp import web

    from mtpilot.gateway.health import health_app

    for number in (SIGTERM, SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, agent.stop)
    runner = web.AppRunner(health_app(agent), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        await agent.run()
    finally:
        await runner.cleanup()
