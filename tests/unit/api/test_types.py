"""Durations by example; their laws stand in tests/property."""

from datetime import timedelta

import pytest

from mtpilot.api.types import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("250ms", 0.25), ("1m1s1ms", 61.001), ("999999h", 999999 * 3600)],
)
def test_a_duration_is_read(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "1.5h", "-1s", "30s1m", "1h 30m", "10M", "1000000h", "1d"])
def test_another_text_is_not_a_duration(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=24), "24h"),
        (timedelta(milliseconds=1500), "1s500ms"),
        (timedelta(microseconds=1499), "1ms"),
    ],
)
def test_a_duration_is_written(value, text):
    assert format_duration(value) == text


def test_a_negative_duration_is_not_written():
    with pytest.raises(ValueError, match="not negative"):
        format_duration(timedelta(seconds=-1))
