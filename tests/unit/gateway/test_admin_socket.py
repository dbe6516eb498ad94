"""HAProxy's statistics as servers; the real HAProxy is in tests/integration/gateway."""

import pytest

from mtpilot.gateway.admin_socket import AdminSocket, parse_pool
from mtpilot.gateway.pods import ServerState
from mtpilot.gateway.ports import GatewayError

HEADER = "# pxname,svname,scur,slim,status,addr,\n"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("no check", ServerState.READY),
        ("UP", ServerState.READY),
        ("DRAIN", ServerState.DRAIN),
        ("MAINT", ServerState.MAINT),
        ("MAINT (resolution)", ServerState.MAINT),
    ],
)
def test_states(status: str, state: ServerState) -> None:
    assert parse_pool(f"{HEADER}engines,r0,0,,{status},10.0.0.1:30000,\n").servers[0].state is state


def test_fields_and_the_hold_server() -> None:
    rows = "engines,r0,3,48,no check,10.0.0.1:30000,\nengines,r1,,,MAINT,[fd00::1]:1,\nengines,hold,0,,no check,127.0.0.1:1,\n\n"
    first, second = parse_pool(HEADER + rows).servers
    assert (first.name, first.address, first.port, first.maxconn, first.sessions) == ("r0", "10.0.0.1", 30000, 48, 3)
    assert (second.name, second.address, second.port, second.maxconn) == ("r1", "fd00::1", 1, 0)


@pytest.mark.parametrize("text", ["", "Unknown command\n", HEADER + "engines,r0,x,,UP,10.0.0.1:1,\n", HEADER + "engines,r0\n"])
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(GatewayError):
        parse_pool(text)


async def test_no_socket_is_an_error(tmp_path) -> None:
    with pytest.raises(GatewayError, match="does not answer"):
        await AdminSocket(tmp_path / "none.sock").pool()


def test_who_waits_is_on_no_server() -> None:
    rows = "engines,r0,3,48,no check,10.0.0.1:30000,\nengines,hold,1,,no check,127.0.0.1:1,\nengines,BACKEND,9,,UP,,\n"
    assert parse_pool(HEADER + rows).waiting == 6


def test_the_lane_and_the_modes() -> None:
    lane = "mtp,r0,2,4,UP 1/2,10.0.0.1:30000,\nmtp,again,0,,no check,unix,\nmtp,BACKEND,2,,UP,,\n"
    pool = parse_pool(HEADER + "engines,BACKEND,0,,UP,,\n", HEADER + lane, "0x55d0 r0 mtp\n0x55d8 r1 batch\n\n")
    assert [(server.backend, server.name, server.sessions, server.maxconn) for server in pool.lane] == [("mtp", "r0", 2, 4)]
    assert pool.modes == {"r0": "mtp", "r1": "batch"}
    assert (pool.waiting, pool.ready) == (0, True)
