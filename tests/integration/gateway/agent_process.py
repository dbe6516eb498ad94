"""`python -m tests.integration.gateway.agent_process SOCKET PODS`: the agent as a process, with the pods of a JSON file.

It loads what `mtpilot gateway-agent` loads, so that its memory is that command's.
"""

import asyncio
import json
import sys
from pathlib import Path

import aiohttp

from e2e.bench_gateway.said import SaidPods
from mtpilot.adapters.kube.pod_watch import PodWatch
from mtpilot.gateway.admin_socket import AdminSocket
from mtpilot.gateway.agent import Agent
from mtpilot.gateway.health import health_app
from mtpilot.gateway.limits import FileLimits
from mtpilot.gateway.loads import HttpEngineSlots
from mtpilot.render.haproxy import NOTHING_WAITS_FILE

ALSO_LOADED = (PodWatch, FileLimits)


async def main(socket: Path, pods: Path) -> None:
    """Work until killed."""
    watch = SaidPods()
    watch.queue.put_nowait(tuple(json.loads(pods.read_text())))
    async with aiohttp.ClientSession() as session:
        agent = Agent(
            watch=watch, gateway=AdminSocket(socket), engines=HttpEngineSlots(session), nothing_waits=socket.with_name(NOTHING_WAITS_FILE)
        )
        health_app(agent)
        await agent.run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
