"""Traces of every format, and what is no trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mtpilot.simulate.traces import TraceError, parse_trace, read_trace

DATA = Path(__file__).resolve().parents[3] / "e2e" / "data" / "traces"

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:18:04.0000000,110,27
2023-11-16 18:19:03.9799600,7433,14
"""
MOONCAKE_CSV = """timestamp_ms,input_length,output_length
0,6758,500
59999,7322,490
60000,7236,794
120000,1,1
"""
RATES = """t_seconds,total_rps
600,1.0
720,3.0
"""


def parsed(text: str):
    return parse_trace("trace", text.splitlines())


def test_requests_are_counted_into_whole_minutes():
    found = parsed(AZURE)
    assert found.requests_per_minute.tolist() == [2.0, 1.0]  # the request after exactly two minutes begins a minute that is not full
    assert found.output_tokens_per_minute is not None
    assert found.output_tokens_per_minute.tolist() == [18.0, 27.0]
    assert found.mean_output_tokens == pytest.approx(15.0)


def test_mooncake_is_read_as_csv_and_in_its_own_format_alike():
    rows = [line.split(",") for line in MOONCAKE_CSV.splitlines()[1:]]
    lines = [json.dumps({"timestamp": int(at), "input_length": int(i), "output_length": int(o), "hash_ids": [1]}) for at, i, o in rows]
    for found in (parsed(MOONCAKE_CSV), parse_trace("trace", lines)):
        assert found.requests_per_minute.tolist() == [2.0, 1.0]
        assert found.mean_output_tokens == pytest.approx((500 + 490 + 794) / 3)


def test_rates_are_joined_by_straight_lines_from_the_first_one():
    found = parsed(RATES)
    assert found.requests_per_minute.tolist() == [60.0, 120.0]
    assert found.output_tokens_per_minute is None
    assert found.mean_output_tokens is None


def test_columns_may_stand_in_any_order_and_others_are_left_aside():
    text = "output_length,who,timestamp_ms\n5,a,0\n7,b,61000\n"
    assert parsed(text).requests_per_minute.tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "trace:1: unknown columns 'a,b'; known: TIMESTAMP,GeneratedTokens"),
        ("t_seconds,total_rps\n0,1\n60,many\n", "trace:3: could not convert string to float"),
        ("t_seconds,total_rps\n0,1\n60,nan\n", "trace:3: 'nan' is not a finite number"),
        ("t_seconds,total_rps\n0,1\n60,-1\n", "trace:3: '-1' is not a finite number"),
        ("t_seconds,total_rps\n0,1\n60\n", "trace:3: list index out of range"),
        ("t_seconds,total_rps\n60,1\n0,1\n", "trace:3: time runs backwards: 0 s after 60 s"),
        ("t_seconds,total_rps\n0,1\n59,1\n", "less than one minute"),
        ("t_seconds,total_rps\n", "less than one minute"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "trace:2: Invalid isoformat string"),
        ('{"timestamp": 0, "input_length": 1}\n', "trace:1: no 'output_length' in this object"),
        ('{"timestamp": 0, "output_length": 1}\n[1]\n', "trace:2: "),
        ('{"timestamp": 0, "output_length": 1}\nnonsense\n', "trace:2: "),
    ],
)
def test_what_is_no_trace_is_told_with_its_line(text: str, message: str):
    with pytest.raises(TraceError) as raised:
        parsed(text)
    assert message in str(raised.value)


def test_a_cut_keeps_tokens_and_requests_together():
    found = parsed(AZURE).cut(1, 5)
    assert found.requests_per_minute.tolist() == [1.0]
    assert found.output_tokens_per_minute is not None
    assert found.output_tokens_per_minute.tolist() == [27.0]


@pytest.mark.parametrize(
    ("name", "minutes", "requests"),
    [
        ("azure2023_code_full", 57, 8623),
        ("azure2023_conv_first6000", 20, 5985),
        ("mooncake_conversation_lengths_only", 58, 11828),
        ("servegen_deepseek-r1_rate_10min", 1430, None),
    ],
)
def test_the_committed_traces(name: str, minutes: int, requests: float | None):
    found = read_trace(DATA / f"{name}.csv")
    assert (found.name, found.minutes) == (name, minutes)
    assert np.all(found.requests_per_minute >= 0)
    if requests is not None:
        assert found.requests_per_minute.sum() == requests


def test_a_long_trace_is_cut_into_days():
    found = read_trace(DATA / "servegen_m-large_rate_10min.csv")
    assert found.minutes == 14 * 1440 - 10
    assert (found.day(1).minutes, found.day(13).minutes) == (1440, 1430)
