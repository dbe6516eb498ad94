"""HAProxy's statistics as servers; the real HAProxy is in tests/integration/gateway."""

import pytest

from mtpilot.gateway.admin_socket import AdminSocket, BackendTexts, parse_pool
from mtpilot.gateway.pods import ServerState
from mtpilot.gateway.ports import GatewayError

HEADER = "# pxname,svname,scur,slim,status,addr,\n"
STATES = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight\n"
EMPTY = BackendTexts(stat=HEADER, state=STATES)


def texts(rows: str, **admin: int) -> BackendTexts:
    """`admin`: srv_admin_state by server."""
    lines = "".join(f"3 engines 1 {name} 10.0.0.1 2 {bits} 1\n" for name, bits in admin.items())
    return BackendTexts(stat=HEADER + rows, state=STATES + lines + "\n")


@pytest.mark.parametrize(
    ("admin", "state"),
    [
        (0x00, ServerState.READY),
        (0x08, ServerState.DRAIN),
        (0x01, ServerState.MAINT),
        (0x04, ServerState.READY),
        (0x05, ServerState.MAINT),
        (0x0C, ServerState.DRAIN),
        (0x09, ServerState.MAINT),
        (0x20, ServerState.MAINT),
    ],
)
@pytest.mark.parametrize("status", ["UP", "DOWN", "no check"])
def test_states(status: str, admin: int, state: ServerState) -> None:
    """Whether a server answers its checks is HAProxy's own affair."""
    assert parse_pool(texts(f"engines,r0,0,,{status},10.0.0.1:30000,\n", r0=admin), EMPTY).servers[0].state is state


def test_fields_and_the_hold_server() -> None:
    rows = "engines,r0,3,48,no check,10.0.0.1:30000,\nengines,r1,,,MAINT,[fd00::1]:1,\nengines,hold,0,,no check,127.0.0.1:1,\n\n"
    first, second = parse_pool(texts(rows, r0=0, r1=5), EMPTY).servers
    assert (first.name, first.address, first.port, first.maxconn, first.sessions) == ("r0", "10.0.0.1", 30000, 48, 3)
    assert (second.name, second.address, second.port, second.maxconn) == ("r1", "fd00::1", 1, 0)


@pytest.mark.parametrize(
    "broken",
    [
        BackendTexts(stat="", state=STATES),
        BackendTexts(stat="Unknown command\n", state=STATES),
        texts("engines,r0,x,,UP,10.0.0.1:1,\n", r0=0),
        texts("engines,r0\n", r0=0),
        texts("engines,r0,1,,UP,10.0.0.1:1,\n"),
        BackendTexts(stat=HEADER, state="Unknown command\n"),
    ],
)
def test_what_cannot_be_read_is_an_error(broken: BackendTexts) -> None:
    with pytest.raises(GatewayError):
        parse_pool(broken, EMPTY)
    with pytest.raises(GatewayError):
        parse_pool(EMPTY, broken)


async def test_no_socket_is_an_error(tmp_path) -> None:
    with pytest.raises(GatewayError, match="does not answer"):
        await AdminSocket(tmp_path / "none.sock").pool()


def test_who_waits_is_on_no_server() -> None:
    rows = "engines,r0,3,48,no check,10.0.0.1:30000,\nengines,hold,1,,no check,127.0.0.1:1,\nengines,BACKEND,9,,UP,,\n"
    assert parse_pool(texts(rows, r0=0), EMPTY).waiting == 6


def test_the_lane_and_the_modes() -> None:
    lane = texts("mtp,r0,2,4,UP 1/2,10.0.0.1:30000,\nmtp,again,0,,no check,unix,\nmtp,BACKEND,2,,UP,,\n", r0=0, again=0)
    pool = parse_pool(texts("engines,BACKEND,0,,UP,,\n"), lane, "0x55d0 r0 mtp\n0x55d8 r1 batch\n\n")
    assert [(server.backend, server.name, server.sessions, server.maxconn) for server in pool.lane] == [("mtp", "r0", 2, 4)]
    assert pool.modes == {"r0": "mtp", "r1": "batch"}
    assert (pool.waiting, pool.ready) == (0, True)
