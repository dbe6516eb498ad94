"""The agent: pods in, runtime commands out.

One loop makes HAProxy equal to the pods, woken by a change of the pods and otherwise once a second, which is also how a
restarted HAProxy gets its servers back. It is never in the data path: with the agent or the API server away, HAProxy goes on
with the servers it has.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from .desired import ActualPool, Desired, desired_pool, diff, leaving_command
from .keys import key_commands
from .pods import EnginePod, ServerState, engine_pods, gateway_share
from .ports import ApiKeys, Certificate, Certificates, EngineSlots, Gateway, GatewayError, Limits, PodWatch
from .shares import Share
from .telemetry import AgentMetrics
from .waiting import WaitingRequest, lengths_and_ages

SYNC_SECONDS = 1.0
STALE_SECONDS = 30.0
SLOTS_ATTEMPTS = 5
SLOTS_RETRY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Agent:
    """Keeps one HAProxy equal to the pods of one service.

    Attributes:
        watch, gateway, engines: the ports.
        limits: without it there is no contention limit. keys, certificates: only where HAProxy asks for keys or serves TLS.
        address: this pod's own, by which it knows itself among the gateways.
        nothing_waits: a file that exists while the pod is being ended and no request waits in HAProxy. The hook that stops
            HAProxy waits for it, since a HAProxy in its soft stop takes no commands any more.
        metrics: the agent's own.
    """

    watch: PodWatch
    gateway: Gateway
    engines: EngineSlots
    nothing_waits: Path
    limits: Limits | None = None
    keys: ApiKeys | None = None
    certificates: Certificates | None = None
    address: str | None = None
    metrics: AgentMetrics = field(default_factory=AgentMetrics)
    sync_seconds: float = SYNC_SECONDS
    _pods: tuple[EnginePod, ...] | None = None
    _share: Share = field(default_factory=Share)
    _changed_at: float | None = None
    _slots: dict[str, int] = field(default_factory=dict)
    _asking: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _stopping: bool = False
    _told_leaving: bool | None = None
    _ready: bool = False
    _turn_at: float = field(default_factory=time.monotonic)
    _last_failure: str | None = None
    _waiting: tuple[WaitingRequest, ...] = ()
    _waiting_at: float = -math.inf
    _certificate: Certificate | None = None

    async def run(self) -> None:
        """Work until `stop`, and then until HAProxy stops."""
        self.nothing_waits.unlink(missing_ok=True)
        following = asyncio.create_task(self._follow())
        try:
            await self._sync_until_stopped(following)
        finally:
            tasks = [following, *self._asking.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """The pod is being ended: go on until HAProxy stops, since requests that wait in it still need a replica."""
        self._stopping = True
        self._wake.set()

    @property
    def ready(self) -> bool:
        """HAProxy has what the pods need, or what an earlier agent gave it."""
        return self._ready

    @property
    def alive(self) -> bool:
        """The loop turns."""
        return time.monotonic() - self._turn_at < STALE_SECONDS

    async def _sync_until_stopped(self, following: asyncio.Task[None]) -> None:
        while not following.done():
            self._turn_at = time.monotonic()
            self._wake.clear()
            try:
                await self._count_waiting(await self._sync())
            except GatewayError as error:
                self._note_failure(str(error))
                self.metrics.haproxy_up.set(0)
                if self._stopping:
                    return
            await self._sleep()
        await following

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(self.sync_seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _sync(self) -> int:
        """Gives how many requests waited."""
        pool = await self.gateway.pool()
        waiting = pool.waiting
        self.metrics.haproxy_up.set(1)
        await self._say_whether_we_leave()
        self._say_whether_anything_waits(pool)
        await self._sync_keys()
        await self._sync_certificate()
        changed_at, pods = self._changed_at, self._pods
        if pods is None:
            self._ready = self._ready or pool.ready
            self._count(pool)
            return waiting
        desired = self._desired(pods, pool)
        self.metrics.unplaced.set(len(desired.unplaced))
        commands = diff(desired, pool)
        if commands:
            pool = await self._apply(commands)
        self._count(pool)
        # What was asked for, not what these newest numbers would ask for: requests come and go between the two looks.
        if left := diff(desired, pool):
            self._note_failure(f"HAProxy did not take: {'; '.join(left)}")
            return waiting
        self._note_agreement(changed_at)
        return waiting

    async def _sync_keys(self) -> None:
        wanted = self.keys.hashes() if self.keys is not None else None
        if wanted is not None and (commands := key_commands(wanted, await self.gateway.keys())):
            await self.gateway.execute(commands)
            _log.info("API keys changed", clients=sorted(wanted.values()))

    async def _sync_certificate(self) -> None:
        """NB: sent at the first look as well, since it may have been renewed while no agent was there."""
        current = self.certificates.current() if self.certificates is not None else None
        if current is None or current == self._certificate:
            return
        self._certificate = current
        try:
            await self.gateway.renew_certificate(current)
        except GatewayError as error:
            self._note_failure(str(error))
        else:
            _log.info("certificate set", path=current.path)

    def _desired(self, pods: Sequence[EnginePod], pool: ActualPool) -> Desired:
        limit = self.limits.contention_limit() if self.limits is not None else None
        self.metrics.limit.set(limit or 0)
        return desired_pool(pods, self._slots, pool, share=self._share, limit=limit)

    async def _apply(self, commands: Sequence[str]) -> ActualPool:
        answer = await self.gateway.execute(commands)
        self.metrics.commands.inc(len(commands))
        _log.info("servers changed", commands=list(commands), answer=answer)
        return await self.gateway.pool()

    async def _say_whether_we_leave(self) -> None:
        """NB: said once at the start as well, since an agent that was restarted may find what its predecessor said."""
        if self._told_leaving is not self._stopping:
            leaving = self._stopping
            await self.gateway.execute([leaving_command(leaving)])
            self._told_leaving = leaving

    def _say_whether_anything_waits(self, pool: ActualPool) -> None:
        if self._stopping and pool.waiting == 0:
            self.nothing_waits.touch()
        else:
            self.nothing_waits.unlink(missing_ok=True)

    def _note_agreement(self, changed_at: float | None) -> None:
        self._ready = True
        self._last_failure = None
        self.metrics.synced.set_to_current_time()
        if changed_at is not None and self._changed_at == changed_at:
            self.metrics.reaction.observe(time.monotonic() - changed_at)
            self._changed_at = None

    def _note_failure(self, why: str) -> None:
        """Count each, log the first of a kind: the loop comes by every second."""
        self.metrics.failures.inc()
        if why != self._last_failure:
            _log.warning("not in sync", why=why)
        self._last_failure = why

    def _count(self, pool: ActualPool) -> None:
        """By pool and lane together: a replica takes requests while it does so on either."""
        lane = {server.name: server.state for server in pool.lane}
        states = [ServerState.READY if lane.get(server.name) is ServerState.READY else server.state for server in pool.servers]
        for state in ServerState:
            self.metrics.servers.labels(state=state.value).set(states.count(state))

    async def _count_waiting(self, waiting: int) -> None:
        """NB: all of HAProxy's streams are listed for it, so not at each change of the pods, and not while none waits."""
        now = time.monotonic()
        if waiting and now - self._waiting_at < self.sync_seconds:
            return
        self._waiting_at = now
        self._waiting = await self.gateway.waiting(self._waiting) if waiting else ()
        for priority, (number, seconds) in lengths_and_ages(self._waiting).items():
            self.metrics.waiting.labels(priority.value).set(number)
            self.metrics.waiting_seconds.labels(priority.value).set(seconds)

    async def _follow(self) -> None:
        async for manifests in self.watch.snapshots():
            pods, share = engine_pods(manifests), gateway_share(manifests, self.address)
            self.metrics.pods_seen.set_to_current_time()
            if (pods, share) != (self._pods, self._share):
                self._pods, self._share, self._changed_at = pods, share, time.monotonic()
                self._wake.set()
            self._ask_for_slots()

    def _ask_for_slots(self) -> None:
        """Ask each engine once when it gets ready; forget those that are gone."""
        pods = self._pods or ()
        present = {pod.instance for pod in pods}
        self._slots = {instance: slots for instance, slots in self._slots.items() if instance in present}
        self._asking = {instance: task for instance, task in self._asking.items() if instance in present or not task.done()}
        for pod in pods:
            if pod.state is ServerState.READY and pod.instance not in self._slots and pod.instance not in self._asking:
                self._asking[pod.instance] = asyncio.create_task(self._learn_slots(pod))

    async def _learn_slots(self, pod: EnginePod) -> None:
        """NB: until it answers, and for good when it never does, the pod's own arguments count."""
        for _ in range(SLOTS_ATTEMPTS):
            slots = await self.engines.effective_slots(pod)
            if slots is not None:
                self._slots[pod.instance] = slots
                self._wake.set()
                return
            await asyncio.sleep(SLOTS_RETRY_SECONDS)
        _log.warning("engine does not say its slots, going by its arguments", pod=pod.name, slots=pod.requested_slots)
