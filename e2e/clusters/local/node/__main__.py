"""`python -m e2e.clusters.local.node`: run the process node until SIGTERM.

Its containers die with it (they are told so at their start), like those of a machine that is switched off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from e2e.clusters.kube import KubeClient, Kubeconfig
from e2e.clusters.local.config import NodeConfig
from e2e.clusters.local.node.agent import NodeAgent


def main(
    kubeconfig: Annotated[Path, typer.Option(help="how to reach the API server, with the rights of a node")],
    config: Annotated[Path, typer.Option(help="nodes, images, addresses and the state folder, as YAML")],
) -> None:
    """Serve the pods bound to the configured nodes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_serve(Kubeconfig.load(kubeconfig), NodeConfig.load(config)))


async def _serve(kubeconfig: Kubeconfig, config: NodeConfig) -> None:
    async with KubeClient(kubeconfig, user_agent="mtpilot-process-node") as client:
        serving = asyncio.create_task(NodeAgent(config, client).run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await serving


if __name__ == "__main__":
    typer.run(main)
