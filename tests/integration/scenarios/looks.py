"""Looks and touches that several scenarios share: engines, faults, all objects of a namespace, the audit log.

Everything goes through the API server or to the pods themselves, as a person with kubectl and curl would do it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from e2e.clusters.local import LocalCluster
from mtpilot.model.names import ADMIN_SECRET_KEY, ENGINE_PORT, admin_secret_name
from tests.integration.controller.scene import Scene, inference_service

Manifest = dict[str, Any]
_SKIPPED_RESOURCES = frozenset({"events", "leases"})


async def pods(scene: Scene, component: str, service: str = "chat") -> list[Manifest]:
    return await scene.all("pods", f"mtpilot.dev/service={service},mtpilot.dev/component={component}")


async def engine_uids(scene: Scene, service: str = "chat") -> set[str]:
    return {pod["metadata"]["uid"] for pod in await pods(scene, "engine", service)}


def simulated(name: str = "chat", *, replicas: int = 2, time_scale: float = 2, mtp_slots: int = 4, **changes: Any) -> Manifest:
    """A service with few mtp slots and slow steps, so that little load fills it; its engines open `/sim/faults`."""
    service = inference_service(name, replicas=replicas, **changes)
    spec = service["spec"]
    spec["modes"]["mtp"]["maxRunningRequests"] = mtp_slots
    settings = {item["name"]: item["value"] for item in spec["engine"]["env"]}
    settings |= {"SGLANG_SIM_TIME_SCALE": f"{time_scale:g}", "SGLANG_SIM_FAULTS_ENDPOINT": "1"}
    spec["engine"] = spec["engine"] | {"env": [{"name": key, "value": value} for key, value in settings.items()]}
    return service


async def set_faults(scene: Scene, faults: Manifest, *, engines: int | None = None, service: str = "chat") -> None:
    """Set faults in the first `engines` engines (all by default), with the admin key of their service."""
    secret = await scene.get("secrets", admin_secret_name(service))
    assert secret is not None
    key = base64.b64decode(secret["data"][ADMIN_SECRET_KEY]).decode()
    found = sorted(await pods(scene, "engine", service), key=lambda pod: str(pod["metadata"]["name"]))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session:
        for pod in found[:engines]:
            async with session.post(f"http://{pod['status']['podIP']}:{ENGINE_PORT}/sim/faults", json=faults) as answer:
                assert answer.status == 200, await answer.text()


async def objects(cluster: LocalCluster, namespace: str) -> dict[str, Manifest]:
    """The metadata of every object of every kind in a namespace, but events and leases, by "resource/name"."""
    roots = ["/api/v1"]
    roots += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in (await cluster.client.get("/apis"))["groups"]]
    found = {}
    for root in roots:
        for resource in (await cluster.client.get(root))["resources"]:
            name = resource["name"]
            if "/" in name or not resource["namespaced"] or "list" not in resource["verbs"] or name in _SKIPPED_RESOURCES:
                continue
            for item in (await cluster.client.get(f"{root}/namespaces/{namespace}/{name}"))["items"]:
                found[f"{name}/{item['metadata']['name']}"] = item["metadata"]
    return found


def versions(found: dict[str, Manifest]) -> dict[str, str]:
    """What must stay equal where nothing happens: pods' uids (the node reports on them by itself), all others' resourceVersions."""
    return {name: data["uid"] if name.startswith("pods/") else data["resourceVersion"] for name, data in found.items()}


def audit_events(path: Path, *, since: int | None = None) -> Iterator[Manifest]:
    """Finished requests in the audit log, oldest first: all with its rotated parts, or those after byte `since` of the present part."""
    parts = [path] if since is not None else [*sorted(path.parent.glob(f"{path.stem}-*{path.suffix}")), path]
    for part in parts:
        with part.open("rb") as log:
            log.seek(since or 0)
            for line in log:
                event: Manifest = json.loads(line)
                if event.get("stage") == "ResponseComplete":
                    yield event
