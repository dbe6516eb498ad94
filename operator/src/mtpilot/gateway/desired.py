"""Which server of HAProxy's pool stands for which pod, and the commands that make it so.

HAProxy itself is the memory: a pod keeps the server that has its address. So an agent that was restarted, or that finds a
restarted HAProxy, comes to the same answer without a file of its own, and a server never changes hands while it is in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from mtpilot.render.haproxy import BACKEND, LEAVING_SERVER, SERVER_PREFIX

from .pods import EnginePod, ServerState

UNKNOWN_SLOTS = 32  # neither the engine nor the pod says: about what SGLang needs to be busy


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualServer:
    """A server of the pool as HAProxy has it; maxconn 0: no limit. sessions: requests it has now."""

    name: str
    address: str
    port: int
    maxconn: int
    state: ServerState
    sessions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualPool:
    """The pool as HAProxy has it. waiting: requests that no server has yet, in the queue or for want of a replica."""

    servers: tuple[ActualServer, ...]
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredServer:
    """A server as it shall be; `address`, `port` and `maxconn` are None where they do not matter (drain, maint)."""

    name: str
    state: ServerState
    address: str | None = None
    port: int | None = None
    maxconn: int | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The whole pool. `unplaced`: names of pods that serve but found no free server."""

    servers: tuple[DesiredServer, ...]
    unplaced: tuple[str, ...] = ()


def desired_servers(pods: Sequence[EnginePod], slots: Mapping[str, int], actual: Sequence[ActualServer], *, gateways: int = 1) -> Desired:
    """The pool that these pods need.

    Args:
        pods: as `engine_pods` gives them: no two with one address.
        slots: pod instance → effective slots, for the engines that answered.
        actual: the pool as it is.
        gateways: how many gateways share the slots. Each takes its part, so that all together do not make requests wait
            inside one engine while another has room; the parts may add up to `gateways - 1` more than there are.
    """
    places = _assign(pods, actual)
    by_server = {server: pod for pod, server in places.items()}
    servers = tuple(_desired_server(server.name, by_server.get(server.name), slots, gateways) for server in actual)
    unplaced = tuple(pod.name for pod in pods if pod.state is ServerState.READY and pod not in places)
    return Desired(servers=servers, unplaced=unplaced)


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


def _desired_server(name: str, pod: EnginePod | None, slots: Mapping[str, int], gateways: int) -> DesiredServer:
    if pod is None or pod.state is not ServerState.READY:
        return DesiredServer(name=name, state=pod.state if pod else ServerState.MAINT, pod=pod.name if pod else None)
    maxconn = ceil((slots.get(pod.instance) or pod.requested_slots or UNKNOWN_SLOTS) / gateways)
    return DesiredServer(name=name, state=pod.state, address=pod.address, port=pod.port, maxconn=maxconn, pod=pod.name)


def diff(desired: Sequence[DesiredServer], actual: Sequence[ActualServer]) -> tuple[str, ...]:
    """Runtime commands that turn `actual` into `desired`; none where they agree.

    Servers that come are first and servers that go are last, so a swap leaves no moment without a server.
    """
    now = {server.name: server for server in actual}
    order = (ServerState.READY, ServerState.DRAIN, ServerState.MAINT)
    commands: list[str] = []
    for server in sorted(desired, key=lambda server: order.index(server.state)):
        commands += _changes(server, now[server.name])
    return tuple(commands)


def leaving_command(leaving: bool) -> str:
    """The command that has clients told, or not, to take their next request elsewhere."""
    return f"set server {LEAVING_SERVER} state {ServerState.READY if leaving else ServerState.MAINT}"


def _changes(desired: DesiredServer, actual: ActualServer) -> list[str]:
    path = f"{BACKEND}/{desired.name}"
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
    if desired.state is not state:
        commands.append(f"set server {path} state {desired.state}")
    return commands
