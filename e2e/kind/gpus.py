"""GPUs on the status of nodes that have none: as many as the node's label says, put back whenever they are missing.

A patched capacity outlives a restart of the kubelet and of the node; it is lost with the Node object.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from e2e.clusters.kube import ApiError, KubeClient

COUNT_LABEL = "nvidia.com/gpu.count"
RESOURCE = "nvidia.com/gpu"
_PERIOD_SECONDS = 2.0


def missing(node: dict[str, Any]) -> dict[str, Any] | None:
    """Give the patch of a node's status, or None where it has what its label says."""
    count = node["metadata"].get("labels", {}).get(COUNT_LABEL)
    status = node.get("status", {})
    if count is None or all(status.get(kind, {}).get(RESOURCE) == count for kind in ("capacity", "allocatable")):
        return None
    return {"status": {kind: {RESOURCE: count} for kind in ("capacity", "allocatable")}}


async def apply(client: KubeClient) -> None:
    """Put the GPUs of all nodes right, once."""
    for node in (await client.get("/api/v1/nodes"))["items"]:
        patch = missing(node)
        if patch is not None:
            await client.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", patch)


@contextlib.asynccontextmanager
async def kept(client: KubeClient) -> AsyncIterator[None]:
    """Keep them right while the block runs."""
    keeping = asyncio.create_task(_keep(client))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def _keep(client: KubeClient) -> None:
    while True:
        with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
            await apply(client)
        await asyncio.sleep(_PERIOD_SECONDS)
