"""mtpilot's gateway as its pod runs it: HAProxy with the rendered configuration and the agent, told of made-up pods.

The bench plays the API server and the operator: it says which pods there are, with the labels that the operator sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from e2e.bench_gateway.contenders import READY_SECONDS, OneProcess, launch, until_open
from e2e.bench_gateway.fleet import PORT, Replica, poll
from e2e.bench_gateway.said import SaidLimits, SaidPods
from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.gateway.admin_socket import AdminSocket
from mtpilot.gateway.agent import Agent
from mtpilot.gateway.loads import HttpEngineSlots
from mtpilot.gateway.pods import ServerState
from mtpilot.gateway.ports import GatewayError
from mtpilot.model.names import ENGINE_CONTAINER, ENGINE_PORT_NAME, LABEL_MODE, LABEL_SERVING, LABEL_SLOT
from mtpilot.model.snapshot import Manifest
from mtpilot.render.gateway_pod import PID_FILE
from mtpilot.render.haproxy import ADMIN_SOCKET_FILE, CONFIG_FILE, NOTHING_WAITS_FILE, RUN_DIR_ENV, haproxy_config

_SPEC: dict[str, Any] = {
    "model": {"source": "hf://Qwen/Qwen3.6-27B"},
    "hardwareClass": "rtx-pro-6000-x1",
    "replicas": 4,
    "modes": {"mtp": {"maxRunningRequests": 4}, "batch": {"maxRunningRequests": 16}},
    "gateway": {"replicas": 1, "queueTimeout": "60s"},
}


def pod(replica: Replica, *, serving: bool) -> Manifest:
    """The pod of a replica that is ready, as far as the agent reads it."""
    name = f"{replica.name}-{replica.generation}"
    labels = {LABEL_SLOT: replica.name, LABEL_MODE: replica.mode, LABEL_SERVING: str(serving).lower()}
    engine = {
        "name": ENGINE_CONTAINER,
        "args": ["--max-running-requests", str(replica.slots)],
        "ports": [{"name": ENGINE_PORT_NAME, "containerPort": PORT}],
    }
    status = {
        "phase": "Running",
        "podIP": replica.address,
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": ENGINE_CONTAINER, "restartCount": 0}],
    }
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"containers": [engine]}, "status": status}


@dataclass(slots=True, kw_only=True)
class MtpilotGateway(OneProcess):
    """limit: the contention limit that the operator publishes."""

    limit: int | None
    removal: str = "the operator sets the label serving=false on the pod; the agent tells HAProxy; the new pod's Ready brings it back"
    _watch: SaidPods = field(default_factory=SaidPods, init=False)
    _agent: asyncio.Task[None] | None = field(default=None, init=False)
    _pods: dict[str, Manifest] = field(default_factory=dict, init=False)

    @property
    def _admin(self) -> AdminSocket:
        return AdminSocket(self.place.folder / ADMIN_SOCKET_FILE)

    async def start(self, replicas: Sequence[Replica]) -> None:
        # The agent says every change in its log; here they are measured.
        structlog.configure(processors=[structlog.processors.KeyValueRenderer()], logger_factory=structlog.ReturnLoggerFactory())
        folder = self.place.folder
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / CONFIG_FILE
        config.write_text(haproxy_config("chat", InferenceServiceSpec.model_validate(_SPEC)))
        for name in ("modes.map", "keys.map"):
            (folder / name).touch()
        environment = {RUN_DIR_ENV: str(folder), "POD_IP": self.place.address}
        command: list[str | Path] = [self.place.haproxy, "-W", "-db", "-p", folder / PID_FILE, "-f", config]
        self._process = launch(command, self.place, "mtpilot", environment)
        await until_open(self.place)
        agent = Agent(
            watch=self._watch,
            gateway=self._admin,
            engines=HttpEngineSlots(self.place.session),
            nothing_waits=folder / NOTHING_WAITS_FILE,
            limits=SaidLimits(self.limit),
            address=self.place.address,
        )
        self._agent = asyncio.create_task(agent.run())
        self._pods = {replica.name: pod(replica, serving=True) for replica in replicas}
        self._say()
        await self._until_ready({replica.address for replica in replicas})

    def _say(self) -> None:
        self._watch.queue.put_nowait(tuple(self._pods.values()))

    async def _until_ready(self, addresses: set[str]) -> None:
        async def there() -> bool:
            try:
                pool = await self._admin.pool()
            except GatewayError:
                return False
            return {server.address for server in (*pool.servers, *pool.lane) if server.state is ServerState.READY} == addresses

        await poll(there, READY_SECONDS, f"the gateway to route to {sorted(addresses)}")

    def _serving(self) -> set[str]:
        return {item["status"]["podIP"] for item in self._pods.values() if item["metadata"]["labels"][LABEL_SERVING] == "true"}

    async def remove(self, replica: Replica) -> None:
        self._pods[replica.name] = pod(replica, serving=False)
        self._say()
        await self._until_ready(self._serving())

    async def add(self, replica: Replica) -> None:
        self._pods[replica.name] = pod(replica, serving=True)
        self._say()
        await self._until_ready(self._serving())

    async def stop(self) -> None:
        if self._agent is not None:
            self._agent.cancel()
            await asyncio.gather(self._agent, return_exceptions=True)
        await OneProcess.stop(self)
