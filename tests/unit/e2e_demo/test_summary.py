"""Every promise of the demo is checked, and every check can fail."""

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from e2e.demo.shaping import Compression
from e2e.demo.summary import ALWAYS_BATCH, ALWAYS_MTP, AUTO, QUIET_SHARE, failed_checks, summarise, warnings
from e2e.demo.timeline import FleetSample, Timeline
from e2e.load.result import Outcome as Verdict
from tests.unit.e2e_demo.conftest import START, flip

Summary = dict[str, Any]


@pytest.fixture
def good(outcome) -> Summary:
    document: Summary = json.loads(json.dumps(summarise(outcome)))
    return document


def test_the_recorded_outcome_keeps_all_promises(good):
    assert failed_checks(good, baselines=True) == []
    assert warnings(good) == []
    assert good["requests"] == {"sent": 1200, "completed": 1200, "failed": 0, "incomplete": 0}
    assert good["marker_leaks"] == 0
    assert good["flips"] == {"mtp_to_batch": 1, "batch_to_mtp": 1}
    assert good["gpus"] == {"requested_max": 16, "budget": 16}
    assert good["policies"][AUTO]["mean_latency_seconds"] == pytest.approx(2.0)
    assert good["policies"][ALWAYS_MTP]["p99_latency_seconds"] == pytest.approx(4.0)
    assert good["policies"][ALWAYS_BATCH]["output_tokens_per_second"] > 0
    assert good["parameters"]["time_scale"] == 3.0


def numbers(document: Any) -> list[float]:
    if isinstance(document, dict | list):
        return [number for item in (document.values() if isinstance(document, dict) else document) for number in numbers(item)]
    return [document] if isinstance(document, float) else []


def test_no_number_has_more_digits_than_mean_something(outcome):
    outcome.timings["total"] = 200.123456789
    found = numbers(json.loads(json.dumps(summarise(outcome))))
    assert len(found) > 40
    assert [number for number in found if round(number, 4) != number] == []


def edit(*path: str, value: Any) -> Callable[[Summary], None]:
    def change(summary: Summary) -> None:
        for key in path[:-1]:
            summary = summary[key]
        summary[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit("requests", "sent", value=999), "999 requests were sent, at least 1000 were meant to be"),
        (edit("requests", "failed", value=1), "1 requests failed"),
        (edit("requests", "incomplete", value=2), "2 answers were not complete"),
        (edit("marker_leaks", value=3), "3 answers carried another request's marker"),
        (edit("requests", "completed", value=1199), "1199 of 1200 requests were answered in full"),
        (edit("flips", "mtp_to_batch", value=0), "no replica was flipped from mtp to batch"),
        (edit("flips", "batch_to_mtp", value=0), "no replica was flipped back from batch to mtp"),
        (edit("gpus", "requested_max", value=20), "pods held 20 GPUs at once; the budget is 16"),
        (edit("gpus", "requested_max", value=0), "pods held 0 GPUs at once; the budget is 16"),
        (edit("policies", AUTO, "output_tokens_per_second", value=None), "no output_tokens_per_second for policy auto"),
        (edit("policies", ALWAYS_MTP, "mean_latency_seconds", value=math.nan), "no mean_latency_seconds for policy always_mtp"),
        (edit("policies", ALWAYS_BATCH, "p99_latency_seconds", value="2"), "no p99_latency_seconds for policy always_batch"),
    ],
)
def test_each_check_fails(good, change, message):
    bad = copy.deepcopy(good)
    change(bad)
    assert message in failed_checks(bad, baselines=True)


def test_missing_baselines_fail_only_where_they_were_asked_for(good):
    del good["policies"][ALWAYS_MTP]
    assert failed_checks(good, baselines=False) == []
    assert failed_checks(good, baselines=True) == [
        "no output_tokens_per_second, mean_latency_seconds, p99_latency_seconds for policy always_mtp"
    ]


def test_a_machine_that_is_too_busy_is_a_warning(outcome):
    outcome.step_time[ALWAYS_BATCH] = 1.08
    summary = summarise(outcome)
    assert failed_checks(summary, baselines=True) == []
    assert warnings(summary) == ["under always_batch the simulator's steps took 1.080 times what its curve says: this machine was too busy"]


def test_a_generator_that_was_late_is_a_warning(outcome):
    late = [dataclasses.replace(record, sent_at=record.due_at + 0.2) for record in outcome.results[AUTO].records]
    outcome.results[AUTO] = dataclasses.replace(outcome.results[AUTO], records=tuple(late))
    assert warnings(summarise(outcome)) == [
        "under auto requests were sent 0.20 s late on average: this machine was too busy, and latencies include that"
    ]


def test_latency_is_told_apart_by_how_much_load_there_was(outcome):
    start = START[AUTO]
    share = Compression(points=outcome.parameters.shares)
    records = [
        dataclasses.replace(record, ended_at=record.due_at + (1.0 if share.at(record.due_at - start) < QUIET_SHARE else 3.0))
        for record in outcome.results[AUTO].records
    ]
    outcome.results[AUTO] = dataclasses.replace(outcome.results[AUTO], records=tuple(records))
    figures = summarise(outcome)["policies"][AUTO]
    assert figures["quiet_mean_latency_seconds"] == pytest.approx(1.0)
    assert figures["busy_mean_latency_seconds"] == pytest.approx(3.0)
    assert 1.0 < figures["mean_latency_seconds"] < 3.0


def test_lost_requests_reach_the_summary(outcome):
    records = outcome.results[AUTO].records
    bad = [
        dataclasses.replace(records[0], outcome=Verdict.FAILED, error="HTTP 503"),
        dataclasses.replace(records[1], outcome=Verdict.LEAKED),
    ]
    outcome.results[AUTO] = dataclasses.replace(outcome.results[AUTO], records=(*bad, *records[2:]))
    summary = summarise(outcome)
    assert (summary["requests"]["failed"], summary["marker_leaks"], summary["requests"]["completed"]) == (1, 1, 1198)
    assert summary["problems"][0].startswith("failed r-0 at http://127.1.0.1:8080: HTTP 503")
    assert len(failed_checks(summary, baselines=True)) == 3


def test_the_most_gpus_ever_held_count(outcome):
    outcome.timeline.fleet.insert(1, FleetSample(at=1001, service="chat", mtp=4, batch=1, draining=0, loading=0, gpus=20))
    assert summarise(outcome)["gpus"]["requested_max"] == 20


def test_only_flips_that_ended_in_the_auto_run_count(outcome):
    outcome.timeline.flips = {
        "a": flip(20, "chat-r3", "mtp", "batch", "Started"),
        "b": flip(20, "chat-r2", "mtp", "batch", "RolledBack"),
        "c": flip(85, "chat-r1", "batch", "mtp"),
        "d": flip(START[ALWAYS_MTP] - START[AUTO], "chat-r1", "batch", "mtp"),
        "e": dataclasses.replace(flip(20, "chat-mtp-r1", "batch", "mtp"), service="chat-mtp"),
    }
    assert summarise(outcome)["flips"] == {"mtp_to_batch": 0, "batch_to_mtp": 0}


def test_a_timeline_is_the_same_after_being_saved(outcome, tmp_path):
    outcome.timeline.write(tmp_path / "timeline.json")
    assert Timeline.read(tmp_path / "timeline.json") == outcome.timeline
