"""Levels, their order, arrivals, and the forecast of what is left."""

from collections import Counter
from dataclasses import replace

import pytest

from mtpilot.bench.forecast import Done, seconds_left, spelled
from mtpilot.bench.markers import row
from mtpilot.bench.planning import (
    Levels,
    Settings,
    arrivals,
    batches,
    key_of,
    length,
    level_warnings,
    requests_of,
)
from mtpilot.bench.prompts import Length
from mtpilot.bench.recording import Look, batch_record, request_record
from mtpilot.evidence.records import Loop
from tests.unit.bench.made import batch, came, chat_bytes, numbered, sent, target


@pytest.mark.parametrize(
    ("levels", "slots", "expected"),
    [
        (Levels(), 24, (1, 2, 4, 8, 16, 24)),
        (Levels(), 128, (1, 2, 4, 8, 16, 32, 64, 128)),
        (Levels(), 2048, (1, 2, 4, 8, 16, 32, 64, 128, 2048)),
        (Levels(), None, (1, 2, 4, 8, 16, 32, 64, 128)),
        (Levels(concurrency=(64, 1), at_cap=False, above_cap=True), 24, (1, 64)),
        (Levels(concurrency=(1,), at_cap=True, above_cap=True), 24, (1, 24)),
    ],
)
def test_levels_end_at_the_slots_with_one_there(levels, slots, expected):
    assert levels.of(slots) == expected


def test_every_level_of_each_engine_comes_once_a_repeat_and_engines_take_turns():
    settings = Settings(levels=Levels(concurrency=(1, 2)), rates=(0.5,), repeats=3)
    planned = batches(settings, [target("mtp", slots=2), target("batch", slots=4)])
    assert len(planned) == len({one.key for one in planned}) == 3 * 2 * (2 + 3 + 2)
    first = [(one.target.mode, one.concurrency, one.rate_per_second) for one in planned[:7]]
    turns = [
        ("mtp", 1, None),
        ("batch", 1, None),
        ("mtp", 2, None),
        ("batch", 2, None),
        ("batch", 4, None),
        ("mtp", 0, 0.5),
        ("batch", 0, 0.5),
    ]
    assert first == turns
    assert [one.repeat for one in planned] == sorted(one.repeat for one in planned)
    assert Counter(one.shape for one in planned)[planned[0].shape] == 2


def test_a_record_has_the_key_of_its_batch():
    made = batch(4)
    answer = request_record(
        numbered(made), Settings(output_tokens=12), sent(row("r", 0, 0), 0), came(chat_bytes(["a"])), given_out=()
    ).record
    assert key_of(batch_record(numbered(made), [answer], [], None)) == made.key


def test_arrivals_are_all_at_once_or_poisson_and_the_same_for_every_mode():
    settings = Settings(rates=(5.0,), duration_seconds=200.0, rounds=2)
    assert arrivals(settings, batch(3)) == (0.0, 0.0, 0.0)
    assert requests_of(settings, batch(3)) == 6
    opened = batch(0, loop=Loop.OPEN, rate_per_second=5.0)
    found = arrivals(settings, opened)
    assert 850 < len(found) < 1150
    assert list(found) == sorted(found)
    assert found == arrivals(settings, replace(opened, target=target("batch")))
    assert found != arrivals(settings, replace(opened, repeat=1))
    assert arrivals(Settings(rates=(0.001,), duration_seconds=1.0), replace(opened, rate_per_second=0.001)) == (0.0,)


def test_a_traces_lengths_go_in_turn():
    settings = Settings(lengths=(Length(input_tokens=10, output_tokens=50), Length(input_tokens=30, output_tokens=70)))
    assert settings.buckets == (20,)
    assert [length(settings, batch(2), number).output_tokens for number in range(3)] == [50, 70, 50]


@pytest.mark.parametrize(
    "wrong",
    [
        {"levels": Levels(concurrency=(), at_cap=False)}, {"levels": Levels(concurrency=(0,))}, {"repeats": 0}, {"rates": (0.0,)},
        {"rates": (1.0,), "duration_seconds": 0.0},
    ],
)  # fmt: skip
def test_a_plan_that_measures_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=r"nothing to measure|at least 1|above 0"):
        Settings(**wrong)


def test_levels_above_the_slots_and_levels_that_end_low_are_said():
    asked = Settings(levels=Levels(concurrency=(1, 64), at_cap=False, above_cap=True))
    (words,) = level_warnings(asked, [target(slots=24)])
    assert "64 at once is more than its 24 slots: that measures the queue, not the engine" in words
    low = Settings(levels=Levels(concurrency=(1, 16), at_cap=False, above_cap=True))
    (words,) = level_warnings(low, [target(slots=48)])
    assert "the highest level is 16" in words
    assert level_warnings(Settings(), [target(slots=24)]) == []


@pytest.mark.parametrize(
    ("concurrency", "slots", "waiting", "measured"),
    [(32, 24, [], True), (16, 24, [8, 0, 0], False), (16, None, [4, 4, 4], True), (16, 24, [], False)],
)
def test_a_batch_whose_clients_waited_measured_the_queue(concurrency, slots, waiting, measured):
    made = batch(concurrency, of=target(slots=slots))
    answer = request_record(
        numbered(made), Settings(output_tokens=12), sent(row("r", 0, 0), 0), came(chat_bytes(["a"])), given_out=()
    ).record
    record = batch_record(numbered(made), [answer], [Look(running=12, waiting=one) for one in waiting], None)
    assert record.queue_measured is measured


def test_the_time_left_follows_what_was_measured():
    assert seconds_left([batch(4)], [], duration_seconds=60) is None
    done = [Done(batch=batch(1), seconds=2.0), Done(batch=batch(16), seconds=4.0)]
    assert seconds_left([batch(16, repeat=1)], done, duration_seconds=60) == pytest.approx(4.0)
    assert 4.0 < (seconds_left([batch(24)], done, duration_seconds=60) or 0) < 5.0
    assert (seconds_left([batch(48)], done, duration_seconds=60) or 0) > 2 * 4.0
    assert seconds_left([batch(0, loop=Loop.OPEN, rate_per_second=1.0)], done, duration_seconds=60) == 60
    assert [spelled(one) for one in (None, 5.4, 65, 7260)] == ["unknown", "5 s", "1 min 5 s", "2 h 1 min"]
