"""Ports over `tests.world.World`: a cluster in memory that can be told to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from mtpilot.api.status import InferenceServiceStatus
from mtpilot.controller.context import Ports
from mtpilot.model.metrics import MetricsView
from mtpilot.model.plan import Action, Event
from mtpilot.model.slots import EngineLoad, Pod
from mtpilot.model.snapshot import Manifest, Service, Snapshot
from mtpilot.ports import ClusterError
from tests.world import World

KEY = ("team-a", "chat")


@dataclass
class FakeCluster:
    """`fail` is asked with the name of the call (and the action's type) and may raise. `calls` keeps them in order."""

    world: World
    fail: Callable[[str], None] = lambda call: None
    calls: list[str] = field(default_factory=list)
    posted: list[Event] = field(default_factory=list)
    held: bool = False

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.fail(name)

    async def gather(self, namespace: str, name: str) -> Snapshot | None:
        self._call("gather")
        return None if self.world.released else replace(self.world.snapshot(), metrics=None, engines={})

    async def hold(self, service: Service) -> None:
        self._call("hold")
        self.held = True

    async def execute(self, service: Service, action: Action) -> None:
        self._call(type(action).__name__)
        self.world.execute(action)

    async def write_status(self, service: Service, status: Manifest) -> None:
        self._call("status")
        self.world.status = InferenceServiceStatus.model_validate(status)

    async def post_event(self, service: Service, event: Event, now: datetime) -> None:
        self._call("event")
        self.posted.append(event)

    async def write_hardware_status(self, name: str, status: Manifest) -> None:
        self._call("hardware")

    async def refresh_hardware(self) -> int:
        return 0

    async def refresh_profiles(self, namespaces: Sequence[str]) -> int:
        return 0


@dataclass
class WorldMetrics:
    world: World
    gateways: int | None = None

    async def observe(self, namespace: str, service: str, pods: Sequence[Pod], *, gateways: int = 0) -> MetricsView:
        self.gateways = gateways
        found = self.world.snapshot().metrics
        return found or MetricsView(window_seconds=30, scrape_interval_seconds=5)


@dataclass
class WorldEngines:
    world: World

    async def loads(self, pods: Sequence[Pod]) -> Mapping[str, EngineLoad]:
        return self.world.snapshot().engines


@dataclass
class WorldClock:
    world: World

    def now(self) -> datetime:
        return self.world.now


def ports_of(world: World, cluster: FakeCluster) -> Ports:
    return Ports(cluster=cluster, metrics=WorldMetrics(world), engine=WorldEngines(world), clock=WorldClock(world))


def failing(call: str, times: int = 1_000_000) -> Callable[[str], None]:
    """Fail a call with a ClusterError, the first `times` times."""
    left = times

    def fail(name: str) -> None:
        nonlocal left
        if name == call and left > 0:
            left -= 1
            raise ClusterError(f"{call} refused")

    return fail
