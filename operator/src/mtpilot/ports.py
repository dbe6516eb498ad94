"""Ports: the outside world as the controller uses it. Adapters implement them; nothing above names a library."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from mtpilot.model.metrics import MetricsView
from mtpilot.model.plan import Action, Event
from mtpilot.model.slots import EngineLoad, Pod
from mtpilot.model.snapshot import Manifest, Service, Snapshot


class Cluster(Protocol):
    """The Kubernetes API."""

    async def gather(self, namespace: str, name: str) -> Snapshot | None:
        """The service with all that belongs to it, without metrics and engine loads; None when the service is gone."""
        ...

    async def hold(self, service: Service) -> None:
        """Make sure, with our finalizer, that the service cannot vanish before it is drained. Writes once in its life."""
        ...

    async def execute(self, service: Service, action: Action) -> None:
        """Carry out one action.

        Raises:
            ClusterError: the API server refused or did not answer; the plan is made again later.
        """
        ...

    async def write_status(self, service: Service, status: Manifest) -> None:
        """Server-side apply of `/status`."""
        ...

    async def post_event(self, service: Service, event: Event, now: datetime) -> None: ...

    async def write_hardware_status(self, name: str, status: Manifest) -> None: ...

    async def refresh_hardware(self) -> int:
        """Bring the status of every hardware class up to date; how many had changed and were written."""
        ...

    async def refresh_profiles(self, namespaces: Sequence[str]) -> int:
        """Bring the status of every throughput profile up to date; no namespaces: all. How many were written."""
        ...


class Metrics(Protocol):
    """Prometheus."""

    async def observe(self, namespace: str, service: str, pods: Sequence[Pod], *, gateways: int = 0) -> MetricsView:
        """One consistent read; `gateways` is the number of ready gateway pods. Never raises: a failure is `MetricsView.error`."""
        ...


class Engine(Protocol):
    """SGLang's HTTP interface."""

    async def loads(self, pods: Sequence[Pod]) -> Mapping[str, EngineLoad]:
        """Pod uid → load, for those that answered. Never raises."""
        ...


class Clock(Protocol):
    def now(self) -> datetime:
        """The time in UTC, aware."""
        ...


class ClusterError(Exception):
    """The API server refused a request or did not answer."""
