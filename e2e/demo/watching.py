"""Keeps a timeline while the demo runs: watches pods, the service and its events, and asks Prometheus once a second.

It only looks. What it reports is what any user could see with kubectl and PromQL, never the operator's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import aiohttp

from e2e.clusters.kube import ApiError, KubeClient, Manifest
from e2e.demo.parameters import Parameters
from e2e.demo.timeline import EngineSample, FleetSample, Flip, Mark, Timeline
from mtpilot.api.types import API_VERSION
from mtpilot.model import names

_ENGINES = "sglang:num_(running|queue)_reqs|haproxy_backend_current_queue"
GPU = "nvidia.com/gpu"


def requested_gpus(pod: Manifest) -> int:
    """GPUs that a pod holds: bound to a node and not finished."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    containers = pod["spec"].get("containers", [])
    return sum(int(container.get("resources", {}).get("requests", {}).get(GPU, 0)) for container in containers)


def is_ready(pod: Manifest) -> bool:
    """Ready, and not on its way out."""
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def fleet_of(service: str, pods: list[Manifest], at: float) -> FleetSample:
    """Sort a service's engine pods: serving by mode, draining (no longer served, or terminating), loading (not ready yet)."""
    counts = {"mtp": 0, "batch": 0, "draining": 0, "loading": 0}
    for pod in pods:
        labels = pod["metadata"].get("labels", {})
        if labels.get(names.LABEL_COMPONENT) != names.COMPONENT_ENGINE:
            continue
        if labels.get(names.LABEL_SERVING) == "false" or "deletionTimestamp" in pod["metadata"]:
            counts["draining"] += 1
        elif is_ready(pod):
            counts[labels.get(names.LABEL_MODE, "mtp")] += 1
        else:
            counts["loading"] += 1
    return FleetSample(at=at, service=service, gpus=sum(map(requested_gpus, pods)), **counts)


def _unix(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


class Watcher:
    """Use as an async context manager; `timeline` grows, `services` and `pods` are the latest objects.

    Pods, GPUs and flips of all services are kept; decisions, events and Prometheus' view only of the one in `focus`.
    """

    def __init__(self, client: KubeClient, prometheus_url: str, parameters: Parameters, on_mark: Callable[[Mark], None]) -> None:
        self.timeline = Timeline()
        self.focus = parameters.service
        self.services: dict[str, Manifest] = {}
        self.pods: dict[str, Manifest] = {}
        self.changed = asyncio.Event()
        self._client, self._prometheus_url, self._on_mark = client, prometheus_url, on_mark
        self._namespace = parameters.namespace
        self._scrape_seconds = parameters.scrape_seconds
        self._decision = ("", "")
        self._events: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Watcher:
        core, group = f"/api/v1/namespaces/{self._namespace}", f"/apis/{API_VERSION}/namespaces/{self._namespace}"
        events = f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events"
        self._tasks = [
            asyncio.create_task(self._forever(lambda: self._follow(f"{core}/pods", self._on_pod))),
            asyncio.create_task(self._forever(lambda: self._follow(f"{group}/inferenceservices", self._on_service))),
            asyncio.create_task(self._forever(lambda: self._follow(events, self._on_event))),
            asyncio.create_task(self._forever(self._sample)),
        ]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait(self, what: str, condition: Callable[[], bool], *, timeout_seconds: float) -> float:
        """Seconds until `condition` held; TimeoutError names `what`."""
        started = time.monotonic()
        while not condition():
            left = started + timeout_seconds - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not within {timeout_seconds:.0f} s: {what}")
            self.changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), min(left, 1.0))
        return time.monotonic() - started

    def pods_of(self, service: str, component: str | None = None) -> list[Manifest]:
        """A service's pods, all or those of a component."""
        wanted = {names.LABEL_SERVICE: service} | ({names.LABEL_COMPONENT: component} if component else {})
        return [pod for pod in self.pods.values() if wanted.items() <= pod["metadata"].get("labels", {}).items()]

    def gateway_urls(self, service: str) -> list[str]:
        """Base URLs of a service's ready gateway pods."""
        ready = [pod["status"]["podIP"] for pod in self.pods_of(service, names.COMPONENT_GATEWAY) if is_ready(pod)]
        return [f"http://{address}:{names.GATEWAY_PORT}" for address in sorted(ready)]

    async def _forever(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
                await step()
            await asyncio.sleep(0.2)

    async def _follow(self, path: str, handle: Callable[[str, Manifest], None]) -> None:
        listed = await self._client.get(path)
        for item in listed["items"]:
            handle("ADDED", item)
        async for event in self._client.watch(path, resource_version=listed["metadata"]["resourceVersion"]):
            if event["type"] != "BOOKMARK":
                handle(event["type"], event["object"])
                self.changed.set()

    def _on_pod(self, kind: str, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        service = pod["metadata"].get("labels", {}).get(names.LABEL_SERVICE)
        if service:
            self.timeline.fleet.append(fleet_of(service, self.pods_of(service), time.time()))

    def _on_service(self, kind: str, service: Manifest) -> None:
        name, status = service["metadata"]["name"], service.get("status", {})
        if kind == "DELETED":
            self.services.pop(name, None)
            return
        self.services[name] = service
        for entry in status.get("history") or ():
            self._on_history(name, entry)
        if name != self.focus:
            return
        decision = status.get("decision") or {}
        said = (decision.get("reason", ""), decision.get("message", ""))
        if said[0] and said[0] != self._decision[0]:
            self._mark(Mark(at=time.time(), kind="decision", reason=said[0], message=said[1]))
        self._decision = said

    def _on_history(self, service: str, entry: dict[str, Any]) -> None:
        key = f"{entry['slot']} {entry['at']}"
        known = self.timeline.flips.get(key)
        if known is not None and known.outcome == entry["outcome"]:
            return
        self.timeline.flips[key] = Flip(
            at=_unix(entry["at"]),
            service=service,
            slot=entry["slot"],
            from_mode=entry["from"],
            to_mode=entry["to"],
            outcome=entry["outcome"],
            reason=entry["reason"],
            message=entry.get("message", ""),
            seconds=entry.get("seconds"),
            ended_at=None if entry["outcome"] == "Started" else time.time(),
        )

    def _on_event(self, kind: str, event: Manifest) -> None:
        regarding = event.get("regarding", {})
        count = (event.get("series") or {}).get("count", 1)
        known = self._events.get(event["metadata"]["uid"]) == count
        if regarding.get("kind") != "InferenceService" or regarding.get("name") != self.focus or kind == "DELETED" or known:
            return
        self._events[event["metadata"]["uid"]] = count
        self._mark(Mark(at=time.time(), kind="event", reason=event.get("reason", ""), message=event.get("note", "")))

    def _mark(self, mark: Mark) -> None:
        self.timeline.marks.append(mark)
        self._on_mark(mark)

    async def _sample(self) -> None:
        await asyncio.sleep(self._scrape_seconds - 0.2)
        query = f'sum by (__name__) ({{__name__=~"{_ENGINES}",namespace="{self._namespace}",mtpilot_dev_service="{self.focus}"}})'
        url, timeout = f"{self._prometheus_url}/api/v1/query", aiohttp.ClientTimeout(total=5)
        async with self._client.session.get(url, params={"query": query}, timeout=timeout) as answer:
            result = (await answer.json())["data"]["result"]
        values = {series["metric"].get("__name__", ""): float(series["value"][1]) for series in result}
        sample = EngineSample(
            at=time.time(),
            running=values.get("sglang:num_running_reqs", 0.0),
            queued=values.get("sglang:num_queue_reqs", 0.0),
            gateway_queued=values.get("haproxy_backend_current_queue", 0.0),
        )
        self.timeline.engines.append(sample)
