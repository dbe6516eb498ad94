"""The document has the promised form, and each goal that is missed is named."""

import math
from dataclasses import replace

import pytest

from e2e.bench_gateway.run import DIRECT, HAPROXY, LEAST_LOAD, MTPILOT, ROWS, Outcome
from e2e.bench_gateway.summary import CASES, FIGURES, details, failed_goals, missing, summarise, warnings
from tests.unit.bench_gateway.conftest import matrix, row


def goals(outcome: Outcome) -> list[str]:
    return failed_goals(summarise(outcome), details(outcome))


def test_the_summary_has_exactly_the_promised_fields(outcome):
    summary = summarise(outcome)
    assert set(summary) == {"rows", "omlx"}
    assert tuple(summary["rows"]) == ROWS
    assert all(tuple(figures) == FIGURES for figures in summary["rows"].values())
    assert {name: tuple(figures) for name, figures in summary["omlx"].items()} == {"greedy": CASES, "sampled": CASES}
    assert missing(summary) == []
    assert goals(outcome) == []


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (MTPILOT, {"latency_seconds": 0.9}, "mean latency at mixed load is 10.0% below the best other"),
        (LEAST_LOAD, {"latency_seconds": 0.85}, "the best other, smg_least_load"),
        (MTPILOT, {"latency_seconds": 0.8, "p99_ms": 1.6}, "p99 latency is 1.10 ms above plain HAProxy's"),
        (MTPILOT, {"latency_seconds": 0.8, "rate": 17_000.0}, "0.85 of plain HAProxy's requests/s"),
        (MTPILOT, {"latency_seconds": 0.8, "flip_failed": 1}, "1 requests failed in the flips"),
        (MTPILOT, {"latency_seconds": 0.8, "mixed_failed": 2}, "2 of 20 requests of the mixed load"),
    ],
)
def test_a_missed_goal_is_named_with_its_figure(outcome, name, change, says):
    outcome.rows[name] = row(**change)
    assert len(goals(outcome)) == 1
    assert says in goals(outcome)[0]


def test_clients_without_a_gateway_are_no_goal_and_their_errors_none_of_ours(outcome):
    outcome.rows[DIRECT] = row(latency_seconds=0.7, flip_failed=5)
    outcome.rows[HAPROXY] = row(flip_failed=3)
    assert goals(outcome) == []


@pytest.mark.parametrize(
    ("one", "says"), [(matrix(four=100.0), "0.931 of plain"), (matrix(alone_mode="batch"), "ran in batch, not on mtp")]
)
def test_the_rule_has_goals_for_each_sampling(outcome, one, says):
    outcome.matrices["sampled"] = one
    (failure,) = goals(outcome)
    assert failure.startswith("oMLX sampled")
    assert says in failure


def test_a_row_or_a_figure_that_is_missing_is_named(outcome):
    del outcome.rows[HAPROXY]
    outcome.rows[DIRECT] = replace(outcome.rows[DIRECT], tiny=replace(outcome.rows[DIRECT].tiny, added_p99_seconds=math.nan))
    found = missing(summarise(outcome))
    assert len(found) == 2
    assert found[0].startswith("haproxy: no output_tokens_per_second")
    assert found[1] == "direct: no added_p99_ms"


def test_another_contenders_losses_are_told_beside_its_latency(outcome):
    outcome.rows[LEAST_LOAD] = row(mixed_failed=4)
    assert warnings(details(outcome)) == ["smg_least_load: 4 of 20 requests of the mixed load failed; its latencies are of the others"]
