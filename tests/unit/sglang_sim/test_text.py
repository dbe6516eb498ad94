"""Markers and filler: every token is there once, and the marker opens and closes the text."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_sim import text


@pytest.mark.parametrize(
    ("prompt", "marker"),
    [
        ("say marker:XYZ-1 now", "marker:XYZ-1"),
        ("[[marker=q/7]] and more", "[[marker=q/7]]"),
        ("marker:one then marker:two", "marker:two"),
        ("nothing here", ""),
    ],
)
def test_the_last_marker_of_a_prompt_is_found(prompt, marker):
    assert text.find_marker(prompt) == marker


@given(total=st.integers(1, 300), cuts=st.lists(st.integers(0, 300), max_size=5), marker=st.sampled_from(["", "marker:A", "[[marker=B]]"]))
def test_pieces_of_an_answer_are_the_answer(total, cuts, marker):
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < total}), total]
    pieces = [text.words(marker, start, end, total) for start, end in pairwise(edges)]
    whole = text.words(marker, 0, total, total)
    assert "".join(pieces) == whole
    assert len(whole.split()) == total
    if marker:
        assert whole.startswith(marker)
        assert whole.endswith(marker)
        assert whole.count(marker) == min(total, 2)


def test_filler_goes_on_past_what_was_prepared():
    assert len(text.filler(19_990, 45_010).split()) == 25_020
    assert text.filler(19_990, 20_010) == text.filler(19_990, 20_000) + text.filler(20_000, 20_010)


def test_chat_content_may_be_parts():
    messages: list[dict[str, Any]] = [
        {"content": "one two"},
        {"content": [{"type": "text", "text": "three"}, {"type": "image_url"}]},
        {"content": None},
    ]
    assert text.count_tokens(text.chat_prompt(messages)) == 3
