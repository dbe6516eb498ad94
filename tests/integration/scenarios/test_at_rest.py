"""Twenty services at rest, half of them decided by a profile: five minutes without a single write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from mtpilot.api.types import API_VERSION
from tests import profiles
from tests.integration.controller import audit
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import HARDWARE, Manifest, Scene, inference_service
from tests.integration.scenarios.looks import audit_events, objects, versions
from tests.integration.support import eventually

Operators = Callable[..., AbstractAsyncContextManager[Operator]]
STEADY_SERVICES = 20
STEADY_SECONDS = 300.0

ONE_GPU: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "HardwareClass",
    "metadata": {"name": "rtx-x1"},
    "spec": HARDWARE["spec"] | {"gpu": {"perReplica": 1, "memory": "96Gi"}, "engine": {"args": ["--tp-size", "1"]}},
}


MEASURED: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "ThroughputProfile",
    "metadata": {"name": "measured"},
    "spec": profiles.document(hardwareClass="another"),  # so that only those use it that name it
}


def small(index: int) -> Manifest:
    changes: dict[str, Any] = {"hardwareClass": "rtx-x1", "policy": {"mode": "Auto" if index % 2 else "RecommendOnly"}}
    if index % 4 < 2:
        changes["profile"] = {"name": MEASURED["metadata"]["name"]}
    return inference_service(f"chat-{index:02}", replicas=1, **changes)


def looks_at_services(scene: Scene, *, since: int) -> Counter[str]:
    """How often the operator read each service after byte `since` of the audit log."""
    looks: Counter[str] = Counter()
    for event in audit_events(scene.cluster.audit_log_path, since=since):
        target = event.get("objectRef") or {}
        is_look = event["verb"] == "get" and target.get("resource") == "inferenceservices"
        if is_look and event["user"].get("username") == audit.ACCOUNT:
            looks[target["name"]] += 1
    return looks


@pytest.mark.slow
@pytest.mark.timeout(600)  # 7 minutes on two quiet cores
async def test_twenty_steady_services_write_nothing_for_five_minutes(scene: Scene, operators: Operators) -> None:
    await scene.apply(ONE_GPU, MEASURED)
    services = [small(index) for index in range(STEADY_SERVICES)]
    async with operators("--period", "10"):
        for start in range(0, STEADY_SERVICES, 10):
            batch = services[start : start + 10]
            await scene.apply(*batch)
            for service in batch:
                await scene.until_ready(service["metadata"]["name"], replicas=1, seconds=120)

        async def all_seen() -> bool:
            found = await scene.all("inferenceservices")
            conditions = [item for service in found for item in service["status"]["conditions"] if item["type"] == "MetricsAvailable"]
            return len(conditions) == STEADY_SERVICES and all(item["status"] == "True" for item in conditions)

        await eventually(all_seen, seconds=60, every_seconds=1)
        await asyncio.sleep(15)  # one more period of the operator and of its look at the nodes
        start = audit.size(scene.cluster.audit_log_path)
        before = versions(await objects(scene.cluster, scene.namespace))
        await asyncio.sleep(STEADY_SECONDS)
        after = versions(await objects(scene.cluster, scene.namespace))
        accounts = [audit.ACCOUNT]
        accounts += [f"system:serviceaccount:{scene.namespace}:{service['metadata']['name']}-gateway" for service in services]
        written = {name: audit.writes(scene.cluster.audit_log_path, since=start, account=name) for name in accounts}
        assert not {name: found for name, found in written.items() if found}
        assert after == before
        looks = looks_at_services(scene, since=start)
        assert len(looks) == STEADY_SERVICES
        assert min(looks.values()) >= STEADY_SECONDS / 10 / 2  # it was at work all the time
