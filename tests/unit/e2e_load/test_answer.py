"""Each way in which an answer can be wrong is told from a right one."""

import pytest

from e2e.load.answer import FIRST_TOKEN, foreign_markers, judge, read_answer
from e2e.load.result import Outcome
from tests.unit.e2e_load.conftest import chunked, event, whole_answer

OWN = "[[marker=run-1]]"


def verdict(raw: bytes, tokens: int = 8) -> tuple[Outcome, str]:
    return judge(read_answer(raw), marker="run-1", output_tokens=tokens)


def test_a_right_answer_is_completed():
    answer = read_answer(chunked(whole_answer(OWN, 8)))
    assert (answer.status, answer.completion_tokens, answer.done_events, answer.whole) == (200, 8, 1, True)
    assert answer.headers["x-mtpilot-replica"] == "chat-r0"
    assert verdict(chunked(whole_answer(OWN, 8))) == (Outcome.COMPLETED, "")


def test_chunk_borders_do_not_matter():
    text = "".join(whole_answer(OWN, 8))
    assert verdict(chunked([text[at : at + 7] for at in range(0, len(text), 7)])) == (Outcome.COMPLETED, "")


@pytest.mark.parametrize("cut", range(5))
def test_a_cut_stream_is_incomplete(cut):
    outcome, why = verdict(chunked(whole_answer(OWN, 8)[: cut + 1], close=False))
    assert outcome is Outcome.INCOMPLETE
    assert "stream was cut" in why
    assert "no [DONE]" in why


def test_a_stream_without_done_is_incomplete():
    assert verdict(chunked(whole_answer(OWN, 8)[:-1])) == (Outcome.INCOMPLETE, "no [DONE]")


def test_a_lost_piece_of_text_is_incomplete_even_when_usage_is_right():
    events = whole_answer(OWN, 8)
    del events[2]
    outcome, why = verdict(chunked(events))
    assert outcome is Outcome.INCOMPLETE
    assert why == "4 of 8 words"


def test_a_repeated_piece_of_text_is_incomplete():
    events = whole_answer(OWN, 8)
    events.insert(2, events[2])
    assert verdict(chunked(events))[0] is Outcome.INCOMPLETE


def test_fewer_tokens_than_asked_are_incomplete():
    outcome, why = verdict(chunked(whole_answer(OWN, 5)))
    assert outcome is Outcome.INCOMPLETE
    assert "5 of 8 tokens" in why


def test_an_answer_without_finish_reason_is_incomplete():
    events = whole_answer(OWN, 8)
    del events[3]
    assert verdict(chunked(events)) == (Outcome.INCOMPLETE, "no finish_reason")


def test_an_answer_without_the_own_marker_is_incomplete():
    events = whole_answer("word", 8)
    assert verdict(chunked(events)) == (Outcome.INCOMPLETE, "own marker missing")


def test_another_marker_is_a_leak_even_in_a_cut_answer():
    events = whole_answer(OWN, 8)
    events.insert(2, event(" [[marker=run-2]] "))
    assert verdict(chunked(events)) == (Outcome.LEAKED, "marker of another request: run-2")
    assert verdict(chunked(events[:3], close=False))[0] is Outcome.LEAKED


def test_a_second_answer_in_the_same_stream_is_failed():
    events = whole_answer(OWN, 4) + [line.replace('"id": "a"', '"id": "b"') for line in whole_answer(OWN, 4)]
    outcome, why = verdict(chunked(events))
    assert outcome is Outcome.FAILED
    assert why == "answered more than once: ids 2, [DONE] 2, finish 2"


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", "connection closed before a response"),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy", "HTTP 503: busy"),
        (chunked(["data: {not json}\n\n"]), "not JSON"),
        (chunked(['data: {"error": {"message": "aborted"}}\n\n']), "aborted"),
    ],
)
def test_no_or_a_refused_answer_is_failed(raw, error):
    outcome, why = verdict(raw)
    assert outcome is Outcome.FAILED
    assert error in why


def test_words_are_only_counted_where_words_are_tokens():
    events = [event(f"{OWN} two"), event("", finish="length"), event(usage=8), "data: [DONE]\n\n"]
    answer = read_answer(chunked(events))
    assert judge(answer, marker="run-1", output_tokens=8, words_are_tokens=False) == (Outcome.COMPLETED, "")
    assert judge(answer, marker="run-1", output_tokens=8)[0] is Outcome.INCOMPLETE


def test_markers_of_others():
    assert foreign_markers("[[marker=a]] x [[marker=b]] [[marker=b]]", "a") == ["b"]
    assert foreign_markers("[[marker=a]] [[marker=a]]", "a") == []


def test_the_opening_event_is_not_the_first_token():
    assert not FIRST_TOKEN.search(event("").encode())
    assert FIRST_TOKEN.search(event("x").encode())
