"""Durations: what is written is read back, and no shorter text says the same."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtpilot.api.types import format_duration, parse_duration

WHOLE = st.integers(min_value=0, max_value=999_999 * 3_600_000).map(lambda n: timedelta(milliseconds=n))
PARTS = st.tuples(*[st.none() | st.integers(min_value=0, max_value=9999) for _ in range(4)])


def text_of(parts: tuple[int | None, ...]) -> str:
    return "".join(f"{count}{unit}" for count, unit in zip(parts, ("h", "m", "s", "ms"), strict=True) if count is not None)


@given(WHOLE)
def test_written_then_read_is_the_same(value):
    assert parse_duration(format_duration(value)) == value


@given(PARTS.filter(lambda parts: any(part is not None for part in parts)))
def test_every_form_is_read_as_the_sum_of_its_parts(parts):
    units = (timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1), timedelta(milliseconds=1))
    total = sum((unit * (part or 0) for unit, part in zip(units, parts, strict=True)), timedelta(0))
    assert parse_duration(text_of(parts)) == total
    assert len(format_duration(total)) <= max(len(text_of(parts)), len("0s")) or any((part or 0) > 59 for part in parts)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400)))
def test_rounding_is_below_a_millisecond(value):
    assert abs(parse_duration(format_duration(value)) - value) <= timedelta(microseconds=500)


@given(st.text(alphabet="0123456789hms. -", max_size=8))
def test_a_text_is_a_duration_or_an_error(text):
    try:
        value = parse_duration(text)
    except ValueError:
        return
    assert value >= timedelta(0)
    assert parse_duration(format_duration(value)) == value


@given(st.timedeltas(max_value=timedelta(microseconds=-1)))
def test_a_negative_value_is_an_error(value):
    with pytest.raises(ValueError, match="negative"):
        format_duration(value)
