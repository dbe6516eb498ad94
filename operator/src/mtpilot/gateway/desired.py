"""Which server of HAProxy's pool stands for which pod, and the commands that make it so.

HAProxy itself is the memory: a pod keeps the server that has its address. So an agent that was restarted, or that finds a
restarted HAProxy, comes to the same answer without a file of its own, and a server never changes hands while it is in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mtpilot.api.inference_service import Mode
from mtpilot.render.haproxy import BACKEND, LANE, LEAVING_SERVER, MODES_MAP_FILE, SERVER_PREFIX

from .pods import EnginePod, ServerState
from .shares import Share

UNKNOWN_SLOTS = 32  # neither the engine nor the pod says: about what SGLang needs to be busy
FULL_WEIGHT = 256  # HAProxy's highest
CALM_SHARE = 0.9  # of the batch slots; below it they can take back what the mtp replicas have beyond their limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualServer:
    """A server as HAProxy has it; maxconn 0: no limit. sessions: requests it has now."""

    name: str
    address: str
    port: int
    maxconn: int
    state: ServerState
    sessions: int = 0
    weight: int = 1
    backend: str = BACKEND


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualPool:
    """Both backends as HAProxy has them.

    servers: of the pool, in its order. lane: of the lane of the mtp replicas, by the same names.
    modes: server name → mode, as response headers tell it. waiting: requests that no server has yet, in the queue or for
    want of a replica.
    """

    servers: tuple[ActualServer, ...]
    lane: tuple[ActualServer, ...] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    waiting: int = 0

    @property
    def ready(self) -> bool:
        """Some server takes requests."""
        return any(server.state is ServerState.READY for server in (*self.servers, *self.lane))


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredServer:
    """A server as it shall be; what is None does not matter. A weight of 0 goes with a drain, see `render.haproxy`."""

    name: str
    state: ServerState
    address: str | None = None
    port: int | None = None
    maxconn: int | None = None
    weight: int | None = None
    pod: str | None = None
    backend: str = BACKEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """Pool and lane. modes: of the servers that stand for a pod. `unplaced`: pods that serve but found no free server."""

    servers: tuple[DesiredServer, ...]
    modes: Mapping[str, str] = field(default_factory=dict)
    unplaced: tuple[str, ...] = ()


def desired_pool(
    pods: Sequence[EnginePod],
    slots: Mapping[str, int],
    pool: ActualPool,
    *,
    share: Share | None = None,
    limit: int | None = None,
) -> Desired:
    """The pool and the lane that these pods need.

    Args:
        pods: as `engine_pods` gives them: no two with one address.
        slots: pod instance → effective slots, for the engines that answered.
        pool: as it is.
        share: which part of slots and limit is this gateway's; default: all.
        limit: requests that an mtp replica takes before the batch replicas do; None: the modes share the load by their slots.
    """
    places = _assign(pods, pool.servers)
    by_server = {server: pod for pod, server in places.items()}
    mine = share or Share()
    maxconn = {pod: mine.of_slots(slots.get(pod.instance) or pod.requested_slots or UNKNOWN_SLOTS) for pod in places}
    limits = {pod: min(mine.of_limit(limit, _number(places[pod])), maxconn[pod]) for pod in _contending(places)} if limit else {}
    if limits and _saturated(pool, by_server, maxconn, limits):
        limits = {}
    most = max(maxconn.values(), default=1)
    lane = {server.name: server for server in pool.lane}
    servers: list[DesiredServer] = []
    for server in pool.servers:
        pod = by_server.get(server.name)
        beside = lane.get(server.name)
        if pod is None or pod.state is not ServerState.READY:
            servers += _leaving(server.name, pod, has_lane=beside is not None)
            continue
        base = DesiredServer(name=server.name, state=pod.state, address=pod.address, port=pod.port, pod=pod.name)
        weight = max(1, round(FULL_WEIGHT * maxconn[pod] / most))
        is_mtp = pod.mode is Mode.MTP
        servers += _serving(base, server, beside if is_mtp else None, maxconn=maxconn[pod], limit=limits.get(pod), weight=weight)
        if not is_mtp and beside is not None:
            servers.append(DesiredServer(name=server.name, state=ServerState.MAINT, backend=LANE))
    unplaced = tuple(pod.name for pod in pods if pod.state is ServerState.READY and pod not in places)
    return Desired(servers=tuple(servers), modes={name: pod.mode.value for name, pod in by_server.items() if pod.mode}, unplaced=unplaced)


def _contending(places: Mapping[EnginePod, str]) -> list[EnginePod]:
    """The mtp replicas that serve, where a batch replica serves as well."""
    serving = [pod for pod in places if pod.state is ServerState.READY]
    mtp = [pod for pod in serving if pod.mode is Mode.MTP]
    return mtp if len(mtp) < len(serving) else []


def _saturated(
    pool: ActualPool, by_server: Mapping[str, EnginePod], maxconn: Mapping[EnginePod, int], limits: Mapping[EnginePod, int]
) -> bool:
    """Whether the mtp replicas are needed beyond their limit: requests wait, or would as soon as it was closed again."""
    if pool.waiting > 0:
        return True
    opened = any(server.state is ServerState.READY and by_server.get(server.name) in limits for server in pool.servers)
    in_flight = sum(server.sessions for server in (*pool.servers, *pool.lane) if server.name in by_server)
    batch_slots = sum(maxconn[pod] for pod in by_server.values() if pod.state is ServerState.READY and pod not in limits)
    return opened and in_flight > sum(limits.values()) + CALM_SHARE * batch_slots


def _leaving(name: str, pod: EnginePod | None, *, has_lane: bool) -> list[DesiredServer]:
    state = pod.state if pod else ServerState.MAINT
    weight = 0 if state is ServerState.DRAIN else None
    server = DesiredServer(name=name, state=state, weight=weight, pod=pod.name if pod else None)
    return [server, DesiredServer(name=name, state=state, weight=weight, pod=server.pod, backend=LANE)] if has_lane else [server]


def _serving(
    base: DesiredServer, server: ActualServer, lane: ActualServer | None, *, maxconn: int, limit: int | None, weight: int
) -> list[DesiredServer]:
    """The servers of a pod. What it has on the one is taken off the limit of the other, so their sum is never above it."""
    if lane is None:
        return [_like(base, maxconn=maxconn, weight=weight)]
    if limit is None:
        room = max(1, maxconn - _sessions(lane, base))
        return [_like(base, maxconn=room, weight=weight), _like(base, state=ServerState.DRAIN, weight=0, backend=LANE)]
    room = limit - _sessions(server, base)
    # NB: maxconn 0 means no limit to HAProxy.
    state = ServerState.READY if room > 0 else ServerState.DRAIN
    opened = _like(base, state=state, maxconn=room if room > 0 else None, weight=weight if room > 0 else 0, backend=LANE)
    return [_like(base, state=ServerState.DRAIN, weight=0), opened]


def _like(
    base: DesiredServer,
    *,
    state: ServerState = ServerState.READY,
    maxconn: int | None = None,
    weight: int | None = None,
    backend: str = BACKEND,
) -> DesiredServer:
    return DesiredServer(
        name=base.name,
        state=state,
        address=base.address,
        port=base.port,
        maxconn=maxconn,
        weight=weight,
        pod=base.pod,
        backend=backend,
    )


def _sessions(server: ActualServer, base: DesiredServer) -> int:
    """What the pod itself has there, not one that had the server before."""
    return server.sessions if (server.address, server.port) == (base.address, base.port) else 0


def _assign(pods: Sequence[EnginePod], actual: Sequence[ActualServer]) -> dict[EnginePod, str]:
    """Pod → server name. A pod that is not in the pool gets a server only once it can serve."""
    places: dict[EnginePod, str] = {}
    for pod in pods:
        same = [server for server in actual if (server.address, server.port) == (pod.address, pod.port)]
        if same:
            places[pod] = min(same, key=lambda server: (server.state is ServerState.MAINT, server.name != _preferred(pod))).name
    taken = set(places.values())
    for pod in pods:
        if pod in places or pod.state is not ServerState.READY:
            continue
        free = [server for server in actual if server.name not in taken]
        if free:
            # Without its own number a pod gets the last free server: a name that is no slot's says that it is an extra.
            place = min(reversed(free), key=lambda server: (server.name != _preferred(pod), server.sessions > 0)).name
            places[pod] = place
            taken.add(place)
    return places


def _preferred(pod: EnginePod) -> str:
    """The server with the slot's own number: chat-r3 → r3."""
    number = pod.slot.rpartition("-r")[2]
    return f"{SERVER_PREFIX}{number}"


def _number(server: str) -> int:
    return int(server.removeprefix(SERVER_PREFIX))


def diff(desired: Desired, actual: ActualPool) -> tuple[str, ...]:
    """Runtime commands that turn `actual` into `desired`; none where they agree.

    Servers that come are first and servers that go are last, so a swap leaves no moment without a server.
    """
    now = {(server.backend, server.name): server for server in (*actual.servers, *actual.lane)}
    order = (ServerState.READY, ServerState.DRAIN, ServerState.MAINT)
    commands = [
        f"{'set' if name in actual.modes else 'add'} map {MODES_MAP_FILE} {name} {mode}"
        for name, mode in sorted(desired.modes.items())
        if actual.modes.get(name) != mode
    ]
    for server in sorted(desired.servers, key=lambda server: order.index(server.state)):
        commands += _changes(server, now[server.backend, server.name])
    return tuple(commands)


def leaving_command(leaving: bool) -> str:
    """The command that has clients told, or not, to take their next request elsewhere."""
    return f"set server {LEAVING_SERVER} state {ServerState.READY if leaving else ServerState.MAINT}"


def _changes(desired: DesiredServer, actual: ActualServer) -> list[str]:
    path = f"{desired.backend}/{desired.name}"
    commands = []
    state = actual.state
    if desired.address is not None and (desired.address, desired.port) != (actual.address, actual.port):
        if state is not ServerState.MAINT:
            # No request may go to the new address under the old one's limit.
            commands.append(f"set server {path} state {ServerState.MAINT}")
            state = ServerState.MAINT
        commands.append(f"set server {path} addr {desired.address} port {desired.port}")
    if desired.maxconn is not None and desired.maxconn != actual.maxconn:
        commands.append(f"set maxconn server {path} {desired.maxconn}")
    if desired.weight is not None and desired.weight != actual.weight:
        commands.append(f"set server {path} weight {desired.weight}")
    if desired.state is not state:
        commands.append(f"set server {path} state {desired.state}")
        if desired.state is ServerState.READY and state is ServerState.DRAIN:
            # NB: a server that leaves its drain looks at the queue only when its limit is set.
            commands.append(f"set maxconn server {path} {desired.maxconn}")
    return commands
