"""The pool follows the pods: properties that hold for every set of pods and every state of the pool."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mtpilot.api.inference_service import Mode
from mtpilot.gateway.desired import ActualPool, ActualServer, desired_pool, diff
from mtpilot.gateway.pods import EnginePod, ServerState
from mtpilot.gateway.shares import Share
from mtpilot.render.haproxy import LANE

POOL = 6
NONE = tuple(ActualServer(name=f"r{i}", address="127.0.0.1", port=1, maxconn=0, state=ServerState.MAINT) for i in range(POOL))
EMPTY = ActualPool(servers=NONE, lane=tuple(replace(server, backend=LANE) for server in NONE))

addresses = st.integers(1, 8).map(lambda i: f"10.0.0.{i}")
states = st.sampled_from(ServerState)


def engine(slot: int, address: str, state: ServerState = ServerState.READY, slots: int | None = 4, mode: Mode | None = None) -> EnginePod:
    name = f"chat-r{slot}-{address}"
    return EnginePod(
        name=name, instance=name, slot=f"chat-r{slot}", address=address, port=30000, state=state, requested_slots=slots, mode=mode
    )


@st.composite
def pod_sets(draw: st.DrawFn) -> tuple[EnginePod, ...]:
    chosen = draw(st.lists(addresses, unique=True, max_size=7))
    return tuple(
        engine(draw(st.integers(0, 5)), address, draw(states), draw(st.sampled_from([None, 2, 4])), draw(st.sampled_from([None, *Mode])))
        for address in chosen
    )


@st.composite
def some_servers(draw: st.DrawFn, backend: str) -> tuple[ActualServer, ...]:
    return tuple(
        ActualServer(
            name=server.name,
            address=draw(st.one_of(st.just("127.0.0.1"), addresses)),
            port=draw(st.sampled_from([1, 30000])),
            maxconn=draw(st.sampled_from([0, 2, 4])),
            state=draw(states),
            sessions=draw(st.integers(0, 2)),
            backend=backend,
        )
        for server in NONE
    )


@st.composite
def pools(draw: st.DrawFn) -> ActualPool:
    return ActualPool(servers=draw(some_servers("engines")), lane=draw(some_servers(LANE)), waiting=draw(st.integers(0, 1)))


limits = st.sampled_from([None, 1, 2, 3])


def run(commands: tuple[str, ...], pool: ActualPool) -> ActualPool:
    """What HAProxy makes of the commands."""
    servers = {(server.backend, server.name): server for server in (*pool.servers, *pool.lane)}
    modes = dict(pool.modes)
    for command in commands:
        if match := re.fullmatch(r"(add|set) map modes.map (\w+) (\w+)", command):
            assert (match[1] == "set") is (match[2] in modes)
            modes[match[2]] = match[3]
            continue
        match = re.fullmatch(r"set (?:maxconn )?server (\w+)/(\w+) (.+)", command)
        assert match, command
        key, words = (match[1], match[2]), match[3].split()
        if words[0] == "state":
            servers[key] = replace(servers[key], state=ServerState(words[1]))
        elif words[0] == "addr":
            servers[key] = replace(servers[key], address=words[1], port=int(words[3]))
        elif words[0] == "weight":
            servers[key] = replace(servers[key], weight=int(words[1]))
        else:
            assert int(words[0]) > 0, "to HAProxy 0 is no limit at all"
            servers[key] = replace(servers[key], maxconn=int(words[0]))
    half = len(pool.servers)
    return replace(pool, servers=tuple(servers.values())[:half], lane=tuple(servers.values())[half:], modes=modes)


def settle(pods: tuple[EnginePod, ...], pool: ActualPool, limit: int | None = None, share: Share | None = None) -> ActualPool:
    return run(diff(desired_pool(pods, {}, pool, limit=limit, share=share), pool), pool)


def taking(pool: ActualPool) -> list[ActualServer]:
    return [server for server in (*pool.servers, *pool.lane) if server.state is ServerState.READY]


@given(pod_sets(), pools(), limits)
def test_one_pass_is_enough(pods: tuple[EnginePod, ...], pool: ActualPool, limit: int | None) -> None:
    desired = desired_pool(pods, {}, pool, limit=limit)
    assert diff(desired, run(diff(desired, pool), pool)) == ()


@given(pod_sets(), pools())
def test_exactly_the_serving_pods_take_requests(pods: tuple[EnginePod, ...], pool: ActualPool) -> None:
    serving = [pod for pod in pods if pod.state is ServerState.READY]
    unplaced = desired_pool(pods, {}, pool).unplaced
    ready = taking(settle(pods, pool))
    assert {server.address for server in ready} == {pod.address for pod in serving if pod.name not in unplaced}
    assert len({(server.address, server.port) for server in ready}) == len(ready), "a pod stands in the pool twice"
    assert not unplaced or len(pods) > POOL, "a pod was left out of a pool with room"


@given(pod_sets(), pools(), limits, st.integers(1, 3))
def test_no_replica_is_given_more_than_its_share(pods: tuple[EnginePod, ...], pool: ActualPool, limit: int | None, gateways: int) -> None:
    """What it has on the server that closes and what it may have on the one that is open: together its share at most."""
    share = Share(gateways=gateways, rank=0)
    after = settle(pods, pool, limit, share)
    for pod in pods:
        most = share.of_slots(pod.requested_slots or 32)
        mine = [server for server in (*after.servers, *after.lane) if (server.address, server.port) == (pod.address, pod.port)]
        opened = [server for server in mine if server.state is ServerState.READY]
        names = {server.name for server in opened}
        before = [server for server in (*pool.servers, *pool.lane) if (server.address, server.port) == (pod.address, pod.port)]
        aside = {(server.backend, server.name) for server in mine if server.name in names and server.state is ServerState.DRAIN}
        closed = sum(server.sessions for server in before if (server.backend, server.name) in aside)
        assert len(opened) <= 1
        assert all(server.maxconn <= max(1, most - closed) for server in opened)
        if pod.mode is not Mode.MTP:
            assert all(server.backend != LANE for server in opened)


@given(pod_sets(), pod_sets(), pools())
def test_a_pod_keeps_its_server(first: tuple[EnginePod, ...], second: tuple[EnginePod, ...], pool: ActualPool) -> None:
    before = settle(first, pool)
    after = settle(second, before)
    for old in before.servers:
        if old.state is not ServerState.READY:
            continue
        new = next(server for server in after.servers if server.name == old.name)
        if any(pod.address == old.address for pod in second):
            assert new.address == old.address, "a server changed hands while its pod was there"


@given(pod_sets(), pools(), limits)
def test_a_server_that_comes_is_set_up_before_it_serves(pods: tuple[EnginePod, ...], pool: ActualPool, limit: int | None) -> None:
    """After any prefix of the commands, whoever serves is a pod with its own limit, or was there before and untouched."""
    desired = desired_pool(pods, {}, pool, limit=limit)
    aims = {(server.backend, server.name): server for server in desired.servers}
    before = {(server.backend, server.name): server.state for server in (*pool.servers, *pool.lane)}
    commands = diff(desired, pool)
    for length in range(len(commands) + 1):
        for server in taking(run(commands[:length], pool)):
            if before[server.backend, server.name] is not ServerState.READY:
                aim = aims[server.backend, server.name]
                assert (server.address, server.port, server.maxconn) == (aim.address, aim.port, aim.maxconn)


def test_a_slot_gets_its_own_number_and_an_extra_pod_the_last() -> None:
    after = settle((engine(2, "10.0.0.1"), engine(2, "10.0.0.2")), EMPTY)
    assert {server.name: server.address for server in taking(after)} == {"r2": "10.0.0.1", "r5": "10.0.0.2"}


def test_learnt_slots_go_before_requested_ones() -> None:
    pod = engine(0, "10.0.0.1", slots=48)
    (first, *_) = desired_pool((pod,), {pod.instance: 9}, EMPTY).servers
    assert first.maxconn == 9


@given(slots=st.integers(1, 256), gateways=st.integers(1, 8))
def test_gateways_share_the_slots_and_leave_none_unused(slots: int, gateways: int) -> None:
    assert slots <= Share(gateways=gateways).of_slots(slots) * gateways < slots + gateways


@given(limit=st.integers(1, 64), gateways=st.integers(1, 8), turn=st.integers(0, 9))
def test_the_parts_of_a_limit_are_the_limit(limit: int, gateways: int, turn: int) -> None:
    assert sum(Share(gateways=gateways, rank=rank).of_limit(limit, turn) for rank in range(gateways)) == limit


def test_what_does_not_divide_goes_round() -> None:
    assert [Share(gateways=2, rank=0).of_limit(3, turn) for turn in range(4)] == [2, 1, 2, 1]


def test_new_servers_come_before_old_ones_go() -> None:
    pool = settle((engine(0, "10.0.0.1"),), EMPTY)
    pods = (engine(0, "10.0.0.1", ServerState.DRAIN), engine(1, "10.0.0.2"))
    commands = diff(desired_pool(pods, {}, pool), pool)
    assert commands.index("set server engines/r1 state ready") < commands.index("set server engines/r0 state drain")


def test_a_gone_pod_leaves_no_ready_server() -> None:
    pool = settle((engine(0, "10.0.0.1"),), EMPTY)
    assert diff(desired_pool((), {}, pool), pool) == ("set server engines/r0 state maint",)


MIXED = (engine(0, "10.0.0.1", slots=8, mode=Mode.MTP), engine(1, "10.0.0.2", slots=64, mode=Mode.BATCH))


def opened(pool: ActualPool) -> dict[str, int]:
    return {f"{server.backend}/{server.name}": server.maxconn for server in taking(pool)}


def with_sessions(pool: ActualPool, waiting: int = 0, **sessions: int) -> ActualPool:
    def put(server: ActualServer) -> ActualServer:
        return replace(server, sessions=sessions.get(f"{server.backend}_{server.name}", 0))

    return replace(pool, servers=tuple(map(put, pool.servers)), lane=tuple(map(put, pool.lane)), waiting=waiting)


def test_without_a_limit_both_modes_share_the_load_by_their_slots() -> None:
    after = settle(MIXED, EMPTY)
    assert opened(after) == {"engines/r0": 8, "engines/r1": 64}
    assert [server.weight for server in taking(after)] == [32, 256]
    assert after.modes == {"r0": "mtp", "r1": "batch"}


def test_the_lane_is_open_up_to_the_limit_while_a_batch_replica_serves() -> None:
    assert opened(settle(MIXED, EMPTY, 3)) == {"mtp/r0": 3, "engines/r1": 64}
    assert opened(settle(MIXED, EMPTY, 99)) == {"mtp/r0": 8, "engines/r1": 64}, "no more than its slots"


def test_without_a_batch_replica_the_slots_are_the_limit() -> None:
    assert opened(settle(MIXED[:1], EMPTY, 3)) == {"engines/r0": 8}
    gone = replace(MIXED[1], state=ServerState.DRAIN)
    assert opened(settle((MIXED[0], gone), settle(MIXED, EMPTY, 3), 3)) == {"engines/r0": 8}


def test_a_gateway_without_a_part_of_the_limit_leaves_the_replica_to_others() -> None:
    assert opened(settle(MIXED, EMPTY, 1, Share(gateways=2, rank=0))) == {"mtp/r0": 1, "engines/r1": 32}
    assert opened(settle(MIXED, EMPTY, 1, Share(gateways=2, rank=1))) == {"engines/r1": 32}


def test_when_requests_wait_the_mtp_replicas_take_what_they_can() -> None:
    full = with_sessions(settle(MIXED, EMPTY, 3), waiting=5, mtp_r0=3, engines_r1=64)
    busy = settle(MIXED, full, 3)
    assert opened(busy) == {"engines/r0": 5, "engines/r1": 64}
    still = with_sessions(busy, engines_r0=5, mtp_r0=3, engines_r1=60)
    assert opened(settle(MIXED, still, 3)) == {"engines/r0": 5, "engines/r1": 64}
    calm = with_sessions(busy, engines_r0=2, engines_r1=40)
    assert opened(settle(MIXED, calm, 3)) == {"mtp/r0": 1, "engines/r1": 64}
    above = with_sessions(busy, engines_r0=4, engines_r1=40)
    assert opened(settle(MIXED, above, 3)) == {"engines/r1": 64}, "it has more than the limit: nothing new"
