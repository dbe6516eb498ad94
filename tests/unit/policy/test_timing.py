from datetime import UTC, datetime, timedelta, timezone

import pytest

from mtpilot.policy import phrases, timing
from tests.unit.policy.builders import NOW


def test_times_survive_the_status():
    at = NOW + timedelta(milliseconds=123)
    assert timing.to_text(at) == "2026-12-01T12:00:00.123Z"
    assert timing.from_text(timing.to_text(at)) == at


def test_other_zones_are_written_in_utc():
    berlin = timezone(timedelta(hours=1))
    assert timing.to_text(datetime(2026, 12, 1, 13, 0, tzinfo=berlin)) == "2026-12-01T12:00:00.000Z"


@pytest.mark.parametrize("text", [None, "", "soon", "2026-13-01T00:00:00Z", "12:00"])
def test_what_is_no_time_was_never_written(text):
    assert timing.from_text(text) is None


def test_a_time_without_a_zone_is_utc():
    assert timing.from_text("2026-12-01T12:00:00") == datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf"), -1.0, "NaN", "lots", "-3"])
def test_no_data_never_becomes_a_number(value):
    assert timing.number(value) is None


@pytest.mark.parametrize(("value", "expected"), [(0.0, 0.0), ("0", 0.0), ("12.5", 12.5), (3, 3.0)])
def test_numbers_are_read(value, expected):
    assert timing.number(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.0, "0.000"), (1234.5678, "1234.568"), (-1e-9, "0.000"), (1e12, "1000000000000.000")])
def test_decimals_fit_the_crd(value, expected):
    assert timing.decimal(value) == expected


def test_phrases_read_well():
    assert phrases.rate(3950.4) == "3950 tok/s"
    assert phrases.clock(NOW) == "12:00:00Z"
    assert phrases.span(600) == "10m"
    assert phrases.span(0.25) == "250ms"
    assert phrases.count(3.0) == "3"
    assert phrases.count(0.5) == "0.5"
    assert phrases.names(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"
    assert phrases.names(("a",)) == "a"
