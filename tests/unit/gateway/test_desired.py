"""The pool follows the pods: properties that hold for every set of pods and every state of the pool."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mtpilot.gateway.desired import ActualServer, desired_servers, diff
from mtpilot.gateway.pods import EnginePod, ServerState

POOL = 6
EMPTY = tuple(ActualServer(name=f"r{i}", address="127.0.0.1", port=1, maxconn=0, state=ServerState.MAINT) for i in range(POOL))

addresses = st.integers(1, 8).map(lambda i: f"10.0.0.{i}")
states = st.sampled_from(ServerState)


def engine(slot: int, address: str, state: ServerState = ServerState.READY, slots: int | None = 4) -> EnginePod:
    name = f"chat-r{slot}-{address}"
    return EnginePod(name=name, instance=name, slot=f"chat-r{slot}", address=address, port=30000, state=state, requested_slots=slots)


@st.composite
def pod_sets(draw: st.DrawFn) -> tuple[EnginePod, ...]:
    chosen = draw(st.lists(addresses, unique=True, max_size=7))
    return tuple(engine(draw(st.integers(0, 5)), address, draw(states), draw(st.sampled_from([None, 2, 4]))) for address in chosen)


@st.composite
def pools(draw: st.DrawFn) -> tuple[ActualServer, ...]:
    return tuple(
        ActualServer(
            name=server.name,
            address=draw(st.one_of(st.just("127.0.0.1"), addresses)),
            port=draw(st.sampled_from([1, 30000])),
            maxconn=draw(st.sampled_from([0, 2, 4])),
            state=draw(states),
            sessions=draw(st.integers(0, 2)),
        )
        for server in EMPTY
    )


def run(commands: tuple[str, ...], pool: tuple[ActualServer, ...]) -> tuple[ActualServer, ...]:
    """What HAProxy makes of the commands."""
    servers = {server.name: server for server in pool}
    for command in commands:
        if match := re.fullmatch(r"set server engines/(\w+) state (\w+)", command):
            servers[match[1]] = replace(servers[match[1]], state=ServerState(match[2]))
        elif match := re.fullmatch(r"set server engines/(\w+) addr (\S+) port (\d+)", command):
            servers[match[1]] = replace(servers[match[1]], address=match[2], port=int(match[3]))
        elif match := re.fullmatch(r"set maxconn server engines/(\w+) (\d+)", command):
            servers[match[1]] = replace(servers[match[1]], maxconn=int(match[2]))
        else:
            raise AssertionError(command)
    return tuple(servers.values())


def settle(pods: tuple[EnginePod, ...], pool: tuple[ActualServer, ...]) -> tuple[ActualServer, ...]:
    return run(diff(desired_servers(pods, {}, pool).servers, pool), pool)


@given(pod_sets(), pools())
def test_one_pass_is_enough(pods: tuple[EnginePod, ...], pool: tuple[ActualServer, ...]) -> None:
    after = settle(pods, pool)
    assert diff(desired_servers(pods, {}, after).servers, after) == ()


@given(pod_sets(), pools())
def test_exactly_the_serving_pods_take_requests(pods: tuple[EnginePod, ...], pool: tuple[ActualServer, ...]) -> None:
    serving = [pod for pod in pods if pod.state is ServerState.READY]
    unplaced = desired_servers(pods, {}, pool).unplaced
    ready = [server for server in settle(pods, pool) if server.state is ServerState.READY]
    assert {server.address for server in ready} == {pod.address for pod in serving if pod.name not in unplaced}
    assert len({(server.address, server.port) for server in ready}) == len(ready), "a pod stands in the pool twice"
    assert not unplaced or len(pods) > POOL, "a pod was left out of a pool with room"
    limits = {pod.address: pod.requested_slots for pod in serving}
    assert all(server.maxconn == (limits[server.address] or 32) for server in ready)


@given(pod_sets(), pod_sets(), pools())
def test_a_pod_keeps_its_server(first: tuple[EnginePod, ...], second: tuple[EnginePod, ...], pool: tuple[ActualServer, ...]) -> None:
    before = settle(first, pool)
    after = settle(second, before)
    for old in before:
        if old.state is not ServerState.READY:
            continue
        new = next(server for server in after if server.name == old.name)
        if any(pod.address == old.address for pod in second):
            assert new.address == old.address, "a server changed hands while its pod was there"


@given(pod_sets(), pools())
def test_a_server_that_comes_is_set_up_before_it_serves(pods: tuple[EnginePod, ...], pool: tuple[ActualServer, ...]) -> None:
    """After any prefix of the commands, whoever serves is a pod with its own limit, or was there before and untouched."""
    limits = {(pod.address, pod.port): pod.requested_slots or 32 for pod in pods if pod.state is ServerState.READY}
    commands = diff(desired_servers(pods, {}, pool).servers, pool)
    for length in range(len(commands) + 1):
        for server, original in zip(run(commands[:length], pool), pool, strict=True):
            if server.state is ServerState.READY and original.state is not ServerState.READY:
                assert limits[server.address, server.port] == server.maxconn


def test_a_slot_gets_its_own_number_and_an_extra_pod_the_last() -> None:
    after = settle((engine(2, "10.0.0.1"), engine(2, "10.0.0.2")), EMPTY)
    assert {server.name: server.address for server in after if server.state is ServerState.READY} == {"r2": "10.0.0.1", "r5": "10.0.0.2"}


def test_learnt_slots_go_before_requested_ones() -> None:
    pod = engine(0, "10.0.0.1", slots=48)
    (first, *_) = desired_servers((pod,), {pod.instance: 9}, EMPTY).servers
    assert first.maxconn == 9


@given(slots=st.integers(1, 256), gateways=st.integers(1, 8))
def test_gateways_share_the_slots_and_leave_none_unused(slots: int, gateways: int) -> None:
    (server,) = desired_servers([engine(0, "10.0.0.1")], {"chat-r0-10.0.0.1": slots}, EMPTY[:1], gateways=gateways).servers
    assert server.maxconn is not None
    assert slots <= server.maxconn * gateways < slots + gateways


def test_new_servers_come_before_old_ones_go() -> None:
    pool = settle((engine(0, "10.0.0.1"),), EMPTY)
    pods = (engine(0, "10.0.0.1", ServerState.DRAIN), engine(1, "10.0.0.2"))
    commands = diff(desired_servers(pods, {}, pool).servers, pool)
    assert commands.index("set server engines/r1 state ready") < commands.index("set server engines/r0 state drain")


def test_a_gone_pod_leaves_no_ready_server() -> None:
    pool = settle((engine(0, "10.0.0.1"),), EMPTY)
    assert diff(desired_servers((), {}, pool).servers, pool) == ("set server engines/r0 state maint",)
