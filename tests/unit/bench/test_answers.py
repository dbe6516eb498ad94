"""Streams of the three endpoints, whole, cut and wrong."""

import pytest

from mtpilot.bench.answers import Answer, Endpoint, read_answer, trouble
from mtpilot.bench.markers import row
from mtpilot.bench.recording import Exchanged, request_record
from mtpilot.evidence.records import RequestRecord
from tests.unit.bench.made import SETTINGS, TOKENS, came, chat_bytes, event, numbered, sent

DONE = b"data: [DONE]\n\n"


def _read(raw: bytes, endpoint: Endpoint = Endpoint.CHAT, *, incremental: bool = False) -> Answer:
    return read_answer(raw, ((1.0, len(raw)),), endpoint, incremental=incremental)


def test_a_chat_stream_is_read_with_the_time_of_each_piece():
    pieces = ["one", " two", " three"]
    raw = chat_bytes(pieces)
    ends = [raw.index(piece.encode()) + 200 for piece in pieces]
    answer = read_answer(raw, tuple((float(at), end) for at, end in enumerate(ends)), Endpoint.CHAT)
    assert answer.text == "one two three"
    assert answer.pieces == tuple(sorted(answer.pieces))
    assert len(answer.pieces) == 3
    assert (answer.prompt_tokens, answer.completion_tokens, answer.finish_reason, answer.ends) == (100, TOKENS, "length", 1)
    assert trouble(answer, asked_tokens=TOKENS, whole_length=True) == ""


def test_reasoning_counts_as_text():
    raw = event({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": None}]}) + chat_bytes([" so"])
    answer = _read(raw)
    assert (answer.text, len(answer.pieces)) == ("hm so", 2)


def test_completions_and_both_kinds_of_generate():
    end = event({"choices": [{"text": "", "finish_reason": "stop"}]}) + event({"choices": [], "usage": {"completion_tokens": 2}}) + DONE
    answer = _read(event({"choices": [{"text": "a b", "finish_reason": None}]}) + end, Endpoint.COMPLETIONS)
    assert (answer.text, answer.completion_tokens, answer.finish_reason) == ("a b", 2, "stop")

    def generate(*texts: str) -> bytes:
        about: dict[str, object] = {"completion_tokens": 2, "prompt_tokens": 3, "finish_reason": None}
        last = {**about, "finish_reason": {"type": "length", "length": 2}}
        return b"".join(event({"text": text, "meta_info": about if text != texts[-1] else last}) for text in texts) + DONE

    whole, parts = _read(generate("a", "a b"), Endpoint.GENERATE), _read(generate("a", " b"), Endpoint.GENERATE, incremental=True)
    for answer in (whole, parts):
        assert (answer.text, answer.finish_reason, answer.prompt_tokens, answer.ends) == ("a b", "length", 3, 1)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (chat_bytes(["a"], finish=None, done=False), "the stream was cut: it has no finish reason"),
        (chat_bytes(["a"], done=False), "the stream was cut: it has no [DONE]"),
        (chat_bytes(["a"]) + chat_bytes(["b"]), "answered more than once: 2 finish reasons, 2 ends"),
        (chat_bytes(["a"], finish="abort"), "finish reason abort"),
        (chat_bytes(["a"], tokens=5), "cut short: 5 of 12 tokens"),
        (chat_bytes([]), "no text"),
        (event({"error": {"message": "out of memory"}}), "out of memory"),
        (b"data: {broken\n\n", "not JSON"),
        (event({"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]}) + DONE, "no token count"),
        (b"\xff\xfe nonsense", "the stream was cut"),
    ],
)
def test_what_is_wrong_is_said(raw, words):
    assert words in trouble(_read(raw), asked_tokens=TOKENS, whole_length=True)


def test_a_natural_end_may_come_early_but_not_by_the_limit():
    early = _read(chat_bytes(["a"], tokens=5, finish="stop"))
    assert trouble(early, asked_tokens=TOKENS, whole_length=False) == ""
    assert "cut short" in trouble(_read(chat_bytes(["a"], tokens=5)), asked_tokens=TOKENS, whole_length=False)


def test_a_refusal_and_a_lost_connection_are_the_records_error():
    def error(exchanged: Exchanged) -> RequestRecord:
        return request_record(numbered(), SETTINGS, sent(row("r", 0, 0), 0), exchanged, given_out=()).record

    refused = error(came(b'{"message": "queue full"}', status=503))
    assert refused.error.startswith("HTTP 503: ")
    assert (refused.whole, refused.ttft_seconds, refused.completion_tokens) == (False, None, 0)
    assert error(came(b"", status=0, error="ClientOSError: reset")).error == "ClientOSError: reset"


def test_times_of_a_record():
    raw = chat_bytes(["a", "b"])
    first = raw.index(b'"a"') + 100
    made = request_record(
        numbered(), SETTINGS, sent(row("r", 0, 0), 0), came(raw, reads=[(1.5, first), (2.5, len(raw))]), given_out=()
    ).record
    assert (made.ttft_seconds, made.latency_seconds, made.events, made.event_gap_max_seconds) == (0.5, 2.0, 2, 1.0)
    assert made.output is None
