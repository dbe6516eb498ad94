"""One pod's life on the node: volumes, init containers, containers, status, graceful end, and the deletion of its object.

One task owns a pod from its binding to its deletion; the watch only hands it newer manifests. Status goes out when it differs from what
was sent last, after a short pause that joins what happens together, so a quiet pod writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import aiohttp

from e2e.clusters.kube import STRATEGIC, ApiError, KubeClient
from e2e.clusters.local.config import Image, NodeConfig
from e2e.clusters.local.node.container import Container
from e2e.clusters.local.node.environment import ConfigError, PodFacts
from e2e.clusters.local.node.records import ContainerRecord, Waiting, timestamp
from e2e.clusters.local.node.sandbox import Sandbox
from e2e.clusters.local.node.status import Observed, initialized, pod_status

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0
_JOIN_SECONDS = 0.02
_FORCED_GRACE_SECONDS = 1.0
_NOT_FOUND, _CONFLICT = 404, 409

Event = Callable[[dict[str, Any], str, str, str], None]


class PodWorker:
    """Runs one pod; `update` and `vanish` are how the watch talks to it."""

    def __init__(self, pod: dict[str, Any], facts: PodFacts, config: NodeConfig, client: KubeClient, event: Event) -> None:
        self.pod = pod
        self.facts = facts
        self._config = config
        self._client = client
        self._event = event
        self._sandbox = Sandbox(pod, facts, config, client)
        self._start_time = pod.get("status", {}).get("startTime") or timestamp()
        self._ending = asyncio.Event()
        self._dirty = asyncio.Event()
        self._gone = False
        self._mounted = False
        self._sent: dict[str, Any] | None = None
        self._grace_seconds: float | None = None
        spec = pod["spec"]
        self._init = [self._container(c, init=True) for c in spec.get("initContainers", [])]
        self._main = [self._container(c, init=False) for c in spec["containers"]]
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def _path(self) -> str:
        metadata = self.pod["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

    def update(self, pod: dict[str, Any]) -> None:
        """Take a newer manifest of the same pod; a deletion in it starts, or shortens, the graceful end."""
        self.pod = self._sandbox.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._end(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
        self._dirty.set()

    def vanish(self) -> None:
        """The object is gone from the API: end what still runs, soon, and write nothing more."""
        self._gone = True
        self._end(_FORCED_GRACE_SECONDS)

    async def run(self) -> None:
        """Live the pod's life; returns when its object is deleted and its folder removed."""
        reporting = asyncio.create_task(self._report())
        try:
            if self.pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
                await self._live()
            await self._ending.wait()
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            await self._finish()
        finally:
            reporting.cancel()
            self._sandbox.remove()

    def _end(self, grace_seconds: float) -> None:
        if self._grace_seconds is not None and grace_seconds >= self._grace_seconds:
            return
        self._grace_seconds = grace_seconds
        self._ending.set()
        sidecars = {c.record.name for c in self._init if c.record.restartable}
        for container in [*self._init, *self._main]:
            if container.record.name not in sidecars:
                container.stop(grace_seconds)

    async def _live(self) -> None:
        self._dirty.set()
        refreshing = asyncio.create_task(self._keep_mounted())
        try:
            if not await self._until_mounted() or not await self._initialize():
                await self._stop_sidecars()
                return
            for container in self._main:
                self._tasks[container.record.name] = asyncio.create_task(container.run())
            await asyncio.gather(*(self._tasks[container.record.name] for container in self._main))
            await self._stop_sidecars()
        finally:
            refreshing.cancel()
            for task in self._tasks.values():
                task.cancel()

    async def _until_mounted(self) -> bool:
        """Make the volumes, again and again until it works; False when the pod is ended first."""
        while not self._ending.is_set():
            try:
                await self._sandbox.mount()
            except ConfigError as error:
                self._event(self.pod, "Warning", "FailedMount", f"MountVolume.SetUp failed: {error}")
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                _log.info("volumes of %s: %s", self._path, error)
            else:
                self._mounted = True
                self._dirty.set()
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._ending.wait()
        return False

    async def _keep_mounted(self) -> None:
        """Refresh ConfigMaps, Secrets and tokens now and then; what fails is tried at the next turn."""
        while True:
            await asyncio.sleep(self._config.refresh_seconds)
            if self._mounted:
                with contextlib.suppress(ConfigError, ApiError, aiohttp.ClientError, TimeoutError):
                    await self._sandbox.mount()

    async def _initialize(self) -> bool:
        """Run the init containers in order, leaving sidecars running; False when one failed for good or the pod is ended."""
        for container in self._init:
            task = asyncio.create_task(container.run())
            self._tasks[container.record.name] = task
            if container.record.restartable:
                while not container.record.started and not task.done() and not self._ending.is_set():
                    await asyncio.sleep(_JOIN_SECONDS)
            else:
                await task
            if self._ending.is_set() or not initialized(container.record):
                return False
        return not self._ending.is_set()

    async def _stop_sidecars(self) -> None:
        for container in reversed(self._init):
            task = self._tasks.get(container.record.name)
            if container.record.restartable and task is not None:
                container.stop(self._grace_seconds if self._grace_seconds is not None else self._pod_grace)
                await task

    async def _finish(self) -> None:
        """Send the last status and delete the object, however long the API server is away."""
        while not self._gone:
            try:
                await self._send_status()
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod["metadata"]["uid"]}}
                await self._client.delete(self._path, body)
            except ApiError as error:
                if error.status in {_NOT_FOUND, _CONFLICT}:
                    return
                _log.warning("deleting %s: %s", self._path, error)
            except (aiohttp.ClientError, TimeoutError) as error:
                _log.info("deleting %s: %s", self._path, error)
            else:
                return
            await asyncio.sleep(_RETRY_SECONDS)

    async def _report(self) -> None:
        while not self._gone:
            await self._dirty.wait()
            await asyncio.sleep(_JOIN_SECONDS)
            self._dirty.clear()
            try:
                await self._send_status()
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    _log.warning("status of %s: %s", self._path, error)
                    self._retry_status()
            except (aiohttp.ClientError, TimeoutError):
                self._retry_status()

    def _retry_status(self) -> None:
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._dirty.set)

    async def _send_status(self) -> None:
        observed = Observed(
            init=[c.record for c in self._init],
            main=[c.record for c in self._main],
            pod_ip=self.facts.pod_ip if self._mounted else None,
            host_ip=self.facts.host_ip,
            start_time=self._start_time,
            now=timestamp(),
        )
        status = pod_status(self.pod, observed)
        if status == self._sent:
            return
        body = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": _replacing_addresses(status)}
        answer = await self._client.patch(f"{self._path}/status", body, content_type=STRATEGIC)
        self._sent = status
        self.pod.setdefault("status", {})["conditions"] = answer["status"].get("conditions", [])

    @property
    def _pod_grace(self) -> float:
        return float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))

    def _container(self, spec: dict[str, Any], *, init: bool) -> Container:
        sidecar = init and spec.get("restartPolicy") == "Always"
        policy = self.pod["spec"].get("restartPolicy", "Always")
        restart = "Always" if sidecar else ("OnFailure" if init and policy == "Always" else policy)
        metadata = self.pod["metadata"]
        return Container(
            spec=spec,
            record=self._record(spec, sidecar=sidecar),
            restart=restart,
            pod_grace_seconds=self._pod_grace,
            address=self.facts.pod_ip,
            description=f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})",
            image=self._image,
            prepare=self._sandbox.prepare,
            changed=self._dirty.set,
            event=lambda kind, reason, message: self._event(self.pod, kind, reason, message),
            backoff_seconds=self._config.backoff_seconds,
            backoff_max_seconds=self._config.backoff_max_seconds,
        )

    def _record(self, spec: dict[str, Any], *, sidecar: bool) -> ContainerRecord:
        """Give a fresh record; a container that ran under an earlier node process counts as restarted."""
        status = self.pod.get("status", {})
        known = {s["name"]: s for s in [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]}
        earlier = known.get(spec["name"], {})
        ran = bool({"running", "terminated"} & set(earlier.get("state", {})))
        waiting = Waiting(reason="PodInitializing" if self.pod["spec"].get("initContainers") else "ContainerCreating")
        count = earlier.get("restartCount", 0) + (1 if ran else 0)
        return ContainerRecord(name=spec["name"], image=spec["image"], state=waiting, restart_count=count, restartable=sidecar)

    def _image(self, name: str) -> Image | None:
        return next((image for image in self._config.images if image.fits(name)), None)


def _replacing_addresses(status: dict[str, Any]) -> dict[str, Any]:
    """Say that the addresses are all there are: the patch would add to the list, and a pod has one address of a family."""
    return status | {key: [{"$patch": "replace"}, *status[key]] for key in ("podIPs", "hostIPs") if key in status}
