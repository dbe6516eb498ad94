"""Rows that an engine swaps, merges or cuts are always found, and sound rows never accused."""

import random

import pytest

from mtpilot.bench.markers import Row, check, instruction, row
from mtpilot.bench.recording import request_record
from mtpilot.evidence.records import RequestRecord
from tests.unit.bench.made import SETTINGS, TOKENS, came, chat_bytes, numbered, sent

TRIALS = 200
_WORDS = ("the", "river", "mtpilot", "mt2", "rose", "[[marker", "over", "428913", "flour", "mill", "and", "nobody", "marker=")
Answer = tuple[str, int]  # text, tokens


def _answer(of: Row, draw: random.Random) -> Answer:
    """As models write: with or without the brackets, the end perhaps cut in the marker by the output limit."""
    head = draw.choice(
        (f"[[marker={of.marker}]] [[answer={of.answer}]]", f"{of.marker} {of.answer}\n", f"**[[marker={of.marker}]]** ({of.answer})")
    )
    body = " ".join(draw.choice(_WORDS) for _ in range(draw.randrange(3, 12)))
    tail = draw.choice(("", f"[[marker={of.marker}]]", f"[[marker={of.marker[: draw.randrange(1, 12)]}"))
    return f"{head} {body} {tail}", TOKENS


def _swap(answers: list[Answer], draw: random.Random) -> None:
    one, other = draw.sample(range(len(answers)), 2)
    answers[one], answers[other] = answers[other], answers[one]


def _merge(answers: list[Answer], draw: random.Random) -> None:
    one, other = draw.sample(range(len(answers)), 2)
    at = draw.randrange(len(answers[one][0]))
    answers[one] = (f"{answers[one][0][:at]} {answers[other][0]}", TOKENS)


def _truncate(answers: list[Answer], draw: random.Random) -> None:
    one = draw.randrange(len(answers))
    text, kept = answers[one][0], draw.randrange(1, TOKENS)
    answers[one] = (text[: max(1, len(text) * kept // TOKENS)], kept)


FAULTS = {"swap": _swap, "merge": _merge, "truncate": _truncate}


def _records(seed: int, fault: str | None) -> list[RequestRecord]:
    draw = random.Random(f"{seed}/{fault}")
    rows = [row("run", ("batch", seed), index) for index in range(draw.randrange(2, 5))]
    given_out = frozenset(one.marker for one in rows)
    answers = [_answer(one, draw) for one in rows]
    if fault is not None:
        FAULTS[fault](answers, draw)
    return [
        request_record(numbered(), SETTINGS, sent(one, index), came(chat_bytes([text], tokens=tokens)), given_out=given_out).record
        for index, (one, (text, tokens)) in enumerate(zip(rows, answers, strict=True))
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_faulty_batch_is_found(fault):
    missed = [seed for seed in range(TRIALS) if not any(one.foreign_markers or one.error for one in _records(seed, fault))]
    assert missed == []


def test_no_sound_batch_is_accused():
    for seed in range(TRIALS):
        for one in _records(seed, None):
            assert (one.marker_ok, one.foreign_markers, one.answer_ok, one.error) == (True, (), True, "")


def test_a_row_of_an_earlier_batch_is_known_and_a_miscopied_marker_is_nobodys():
    mine, earlier = row("run", 2, 0), row("run", 1, 0)
    known = {mine.marker, earlier.marker}
    assert check(f"{mine.marker} then {earlier.marker}", mine, known).foreign_markers == (earlier.marker,)
    wrong = mine.marker[:-1] + ("a" if mine.marker[-1] != "a" else "b")
    found = check(wrong, mine, known)
    assert (found.marker_ok, found.foreign_markers) == (False, ())


def test_rows_of_a_run_are_unlike_and_stand_in_the_prompt():
    rows = [row("run", shape, index) for shape in range(20) for index in range(50)]
    assert len({one.marker for one in rows}) == len(rows)
    assert row("run", ("x", 1), 3) == row("run", ("x", 1), 3)
    assert f"[[marker={rows[0].marker}]]" in instruction(rows[0])
    assert f"[[answer={rows[0].answer}]]" in instruction(rows[0])
