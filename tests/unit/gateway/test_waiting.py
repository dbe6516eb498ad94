"""What HAProxy's stream list tells of waiting requests, on lines of HAProxy 2.8."""

from mtpilot.gateway.waiting import (
    PriorityClass,
    Stream,
    WaitingRequest,
    lengths_and_ages,
    parse_classes,
    parse_streams,
    same_request,
)

TAIL = "calls=1 rate=0 cpu=0 lat=0 rq[f=800000h,i=16227,an=8000h,ax=] rp[f=80000000h,i=0,an=00h,ax=] scf=[8,400h,fd=17,rex=28s,wex=]"
STREAMS = f"""\
0x2596b780: proto=tcpv4 src=127.0.0.1:60856 fe=openai be=engines srv=r0 ts=00 epoch=0 age=1s {TAIL} exp=28s rc=0 c_exp=
0x2596b1f0: proto=tcpv4 src=127.0.0.1:57462 fe=openai be=<NONE> srv=<none> ts=00 epoch=0 age=20828d14h {TAIL} exp=18s rc=0 c_exp=
0x2596ade0: proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s {TAIL} exp=10s rc=0 c_exp=
0x7f3c70043130: proto=tcpv4 src=127.0.0.1:60872 fe=openai be=engines srv=<none> ts=00 epoch=0 age=1m5s {TAIL} exp=28s rc=0 c_exp=28s
0x7f3c70047cc0: proto=tcpv6 src=[::1]:60874 fe=openai be=engines srv=hold ts=00 epoch=0 age=0s {TAIL} exp=28s rc=0 c_exp=28s
0x7f3c70047cf0: proto=unix_stream src=unix:1 fe=again be=engines srv=<none> ts=00 epoch=0 age=2h3m {TAIL} exp=28s rc=0 c_exp=28s
0x7f3c70047d00: proto=unix_stream src=127.0.0.1:1 fe=openai be=mtp srv=again ts=00 epoch=0 age=2h3m {TAIL} exp=28s rc=0 c_exp=28s

"""
DUMPS = """\
0x7f3c70043130: [03/Dec/2026:06:39:32.430344] id=0 proto=tcpv4 source=127.0.0.1:60856
  flags=0x84a, conn_retries=0, conn_exp=<NEVER> conn_et=0x000 srv_conn=(nil), pend_pos=0x1 waiting=0 epoch=0
  task=0x259d9a70 (state=0x00 nice=1 calls=3 rate=1 exp=28s tid=0(1/0) age=1s)

No such session (use 'show sess').
0x7f3c70047cc0: [03/Dec/2026:06:39:32.430344] id=1 proto=tcpv6 source=[::1]:60874
  task=0x259d9a70 (state=0x00 nice=0 calls=3 rate=1 exp=28s tid=0(1/0) age=1s)
"""


def stream(pointer: str = "0x1", source: str = "c:1", age_seconds: int = 0) -> Stream:
    return Stream(pointer=pointer, source=source, age_seconds=age_seconds)


def test_only_requests_without_a_replica_wait() -> None:
    assert parse_streams(STREAMS) == (
        stream("0x7f3c70043130", "127.0.0.1:60872", 65),
        stream("0x7f3c70047cc0", "[::1]:60874", 0),
        stream("0x7f3c70047cf0", "unix:1", 7380),
    )
    assert parse_streams("") == ()


def test_the_class_is_in_the_dump_of_a_stream_that_is_still_there() -> None:
    assert parse_classes(DUMPS) == {"0x7f3c70043130": PriorityClass.BATCH, "0x7f3c70047cc0": PriorityClass.INTERACTIVE}


def test_a_pointer_that_is_used_again_is_another_request() -> None:
    assert same_request(stream(age_seconds=3), stream(age_seconds=3))
    assert not same_request(stream(age_seconds=3), stream(age_seconds=2))
    assert not same_request(stream(), stream(source="c:2"))


def test_each_class_has_its_length_and_its_oldest() -> None:
    waiting = [WaitingRequest(stream=stream(age_seconds=age), priority=PriorityClass.BATCH) for age in (3, 8, 5)]
    assert lengths_and_ages(waiting) == {PriorityClass.INTERACTIVE: (0, 0), PriorityClass.BATCH: (3, 8)}
