"""The client of tiny answers: where an answer ends, its bounds, and that it counts what fails."""

import contextlib
import itertools
import socket
import threading

import pytest

from e2e.bench_gateway.client import Plan, answer_end, run

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [GOOD, CHUNKED, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"])
def test_an_answer_is_whole_at_its_last_byte_and_not_before(answer):
    assert answer_end(answer) == len(answer)
    assert all(answer_end(answer[:at]) is None for at in range(len(answer)))


def test_an_answer_without_a_length_is_an_error():
    with pytest.raises(ValueError, match="without a length"):
        answer_end(b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.mark.parametrize("change", [{"requests_per_block": 300_000}, {"max_seconds": 61.0}, {"requests_per_block": 0}])
def test_plans_are_bounded_in_count_and_time(change):
    with pytest.raises(ValueError, match="at most"):
        Plan(**{"blocks": (("http://127.0.0.1:1",),), "connections": 1, "requests_per_block": 1, **change})


def test_it_goes_to_loopback_only():
    with pytest.raises(ValueError, match="load goes only"):
        run(Plan(blocks=(("http://192.0.2.1:80",),), connections=1, requests_per_block=1))


@pytest.fixture
def server():
    """Answers every third request with 503, every fourth with its end of the connection, the others with 200."""
    listener = socket.create_server(("127.0.0.1", 0))
    numbers = itertools.count(1)

    def serve(peer):
        with peer, contextlib.suppress(ConnectionError):
            while peer.recv(65536):
                number = next(numbers)
                if number % 4 == 0:
                    return
                peer.sendall(GOOD.replace(b"200 OK", b"503 No") if number % 3 == 0 else GOOD)

    def accept():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize("connections", [1, 3])
def test_answers_and_failures_add_up_over_broken_connections(server, connections):
    result = run(Plan(blocks=((server,),), connections=connections, requests_per_block=24, max_seconds=5.0))["blocks"][0]
    total = result["answers"] + result["failed"]
    assert 24 <= total < 24 + connections
    expected = sum(number % 3 == 0 or number % 4 == 0 for number in range(1, total + 1))
    assert abs(result["failed"] - expected) < connections  # the last requests of the others are not waited for
    assert len(result["seconds"]) == (result["answers"] if connections == 1 else 0)
