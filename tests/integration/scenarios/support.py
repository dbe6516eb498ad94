"""Load and watches around a scenario: what was asked, what pods there were, what the slots had decided.

Everything is seen from outside, through the API server and the gateway pods' addresses, so that a scenario judges what a
user would see and never the operator's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from e2e.clusters.kube import ApiError
from e2e.demo.watching import is_ready, requested_gpus
from e2e.load import BackgroundLoad, LoadResult, background_load
from mtpilot.model import names
from tests.integration.controller.scene import ClusterScene, Manifest
from tests.integration.support import eventually

MODEL = "qwen"  # servedName of `scene.inference_service`


def labels(pod: Manifest) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("labels") or {}
    return found


def serves(pod: Manifest) -> bool:
    """Whether the gateway may send to an engine pod."""
    return is_ready(pod) and labels(pod).get(names.LABEL_SERVING) != "false"


def is_loading(pod: Manifest) -> bool:
    """Whether an engine pod has a node and is not ready yet."""
    return bool(pod["spec"].get("nodeName")) and not is_ready(pod)


@dataclass(slots=True)
class PodWatch:
    """Follows the pods of a namespace while a block runs.

    gpus_peak: most GPUs held by bound pods at one time. serving_least: fewest engine pods that could take requests at one
    time. created: slot → names of its pods in the order of their creation.
    """

    scene: ClusterScene
    pods: dict[str, Manifest] = field(default_factory=dict)
    gpus_peak: int = 0
    serving_least: int = 1 << 30
    created: dict[str, list[str]] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[PodWatch]:
        path = self.scene.path("pods")
        listed = await self.scene.cluster.client.get(path)
        for pod in listed["items"]:
            self.pods[pod["metadata"]["name"]] = pod
            self._note(pod)
        self._measure()
        following = asyncio.create_task(self._follow(path, listed["metadata"]["resourceVersion"]))
        try:
            yield self
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def engines(self) -> list[Manifest]:
        return [pod for pod in self.pods.values() if labels(pod).get(names.LABEL_COMPONENT) == names.COMPONENT_ENGINE]

    async def _follow(self, path: str, version: str) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async for event in self.scene.cluster.client.watch(path, resource_version=version):
                    pod = event["object"]
                    version = pod["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        self.pods.pop(pod["metadata"]["name"], None)
                    elif event["type"] != "BOOKMARK":
                        self.pods[pod["metadata"]["name"]] = pod
                        self._note(pod)
                    self._measure()

    def _note(self, pod: Manifest) -> None:
        slot = labels(pod).get(names.LABEL_SLOT)
        if slot and pod["metadata"]["name"] not in self.created.setdefault(slot, []):
            self.created[slot].append(pod["metadata"]["name"])

    def _measure(self) -> None:
        self.gpus_peak = max(self.gpus_peak, sum(map(requested_gpus, self.pods.values())))
        self.serving_least = min(self.serving_least, sum(map(serves, self.engines())))


async def gateway_urls(scene: ClusterScene, name: str = "chat") -> list[str]:
    """Base URLs of the service's ready gateway pods, at least one."""
    selector = f"{names.LABEL_SERVICE}={name},{names.LABEL_COMPONENT}={names.COMPONENT_GATEWAY}"

    async def ready() -> list[str]:
        pods = [pod for pod in await scene.all("pods", selector) if is_ready(pod)]
        return [f"http://{pod['status']['podIP']}:{names.GATEWAY_PORT}" for pod in pods]

    return await eventually(ready, seconds=30)


def assert_nothing_lost(result: LoadResult | None, *, at_least: int = 1) -> None:
    """Every request was answered once, in full and with its own marker."""
    assert result is not None
    assert (result.failed, result.incomplete, result.marker_leaks) == (0, 0, 0), result.problems()
    assert result.completed == result.sent >= at_least


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """What `under_load` yields."""

    load: BackgroundLoad
    pods: PodWatch


@contextlib.asynccontextmanager
async def under_load(
    scene: ClusterScene,
    *,
    clients: int = 6,
    output_tokens: int = 1500,
    pause_seconds: float = 0.0,
    name: str = "chat",
    urls: Sequence[str] | None = None,
) -> AsyncIterator[UnderLoad]:
    """Keep `clients` clients busy through the gateway while the block runs; at its end nothing may be lost.

    A request of 1500 tokens lasts about two seconds in an engine of `scene.inference_service`. `urls`: where the gateway is
    reached, if not at its pods' own addresses.
    """
    urls = urls or await gateway_urls(scene, name)
    async with (
        PodWatch(scene).running() as pods,
        background_load(
            urls, clients=clients, model=MODEL, output_tokens=output_tokens, pause_seconds=pause_seconds, timeout_seconds=90
        ) as load,
    ):
        await load.wait_completed(clients, timeout_seconds=30)
        yield UnderLoad(load, pods)
        await load.wait_completed(clients, timeout_seconds=30)
    assert_nothing_lost(load.result, at_least=3 * clients)


async def rollout_state(scene: ClusterScene, slot: str) -> dict[str, Any]:
    """What the operator has written down for a slot; camelCase keys, absent ones are not set."""
    found = await scene.get("deployments", slot)
    annotations = ((found or {}).get("metadata") or {}).get("annotations") or {}
    state: dict[str, Any] = json.loads(annotations.get(names.ANNOTATION_ROLLOUT_STATE, "{}"))
    return state


async def slot_pods(scene: ClusterScene, slot: str) -> list[Manifest]:
    """The slot's pods that are not on their way out, oldest first."""
    pods = await scene.all("pods", f"{names.LABEL_SLOT}={slot}")
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return sorted(alive, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


async def until_condition(scene: ClusterScene, kind: str, status: str, *, seconds: float) -> Manifest:
    """Wait until the service's condition has the status; gives the condition."""

    async def there() -> Manifest | None:
        condition = await scene.condition("chat", kind)
        return condition if condition.get("status") == status else None

    return await eventually(there, seconds=seconds, every_seconds=0.2)


async def until_mix(scene: ClusterScene, *, mtp: int, batch: int, seconds: float = 60, name: str = "chat") -> Manifest:
    """Wait until the mix is there, every slot serves and nothing moves; gives the status."""

    last: Manifest = {}

    async def there() -> Manifest | None:
        nonlocal last
        last = status = await scene.status(name)
        slots = status.get("slots") or ()
        settled = (await scene.condition(name, "ModeSettled")).get("status") == "True"
        serving = [slot["mode"] for slot in slots if slot["phase"] == "Serving" and not slot.get("desiredMode")]
        right = sorted(serving) == sorted(["mtp"] * mtp + ["batch"] * batch) and len(serving) == len(slots)
        return status if settled and right else None

    try:
        return await eventually(there, seconds=seconds, every_seconds=0.2)
    except AssertionError as error:
        raise AssertionError(f"{error}\nstatus: {json.dumps(last, indent=1)}") from None


def flips(status: Manifest) -> list[tuple[str, str, str]]:
    """(from, to, outcome) of the history, oldest first."""
    return [(entry["from"], entry["to"], entry["outcome"]) for entry in status.get("history") or ()]


def changed_environment(manifest: Manifest, **values: str | None) -> list[Manifest]:
    """`spec.engine.env` of a service with some variables set, or taken off (None)."""
    items = {item["name"]: item for item in manifest["spec"]["engine"]["env"]}
    for key, value in values.items():
        items.pop(key, None)
        if value is not None:
            items[key] = {"name": key, "value": value}
    return list(items.values())


async def evict(scene: ClusterScene, pod: str) -> int:
    """Ask for an eviction as `kubectl drain` does; gives the HTTP status (201 accepted, 429 the disruption budget says no)."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": scene.namespace}}
    try:
        await scene.cluster.client.create(f"{scene.path('pods', pod)}/eviction", body)
    except ApiError as error:
        return error.status
    return 201
