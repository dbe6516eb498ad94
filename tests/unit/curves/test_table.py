"""Which rows of the wide table count, and how they become curves."""

import pytest

from mtpilot.curves.table import in_flight, is_measurement, is_mtp, monotone, pairs_of


def row(level: int = 1, **changes: str) -> dict[str, str]:
    return {
        "pair_id": "p", "load_axis": "concurrency", "kind": "measured", "C": str(level), "context_tokens": "1000", "spec_method": "MTP",
        "spec_tokens_K": "2", "tok_s_base": str(100 * level), "tok_s_mtp": str(120 * level), "accept_len": "", "notes": "",
    } | changes  # fmt: skip


FOUR = [row(level) for level in (1, 2, 4, 8)]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "PROJECTED linear, not measured"},
        {"kind": "relative only"},
        {"kind": "SIMULATED by us"},
        {"kind": "MTP only: K dependence"},
        {"load_axis": "QPS"},
        {"C": "large"},
    ],
)
def test_what_nobody_measured_does_not_count(changes):
    assert not is_measurement(row(**changes))
    assert pairs_of([*FOUR[:3], row(8, **changes)]) == {}


def test_what_was_multiplied_out_counts():
    assert is_measurement(row(kind="derived = per-stream x C"))


@pytest.mark.parametrize("method", ["VLM MTP mixed route", "DSD with K=0 (tax only)"])
def test_a_replica_that_is_not_in_mtp_mode_is_no_mtp_curve(method):
    assert not is_mtp(row(spec_method=method))
    assert pairs_of([*FOUR[:3], row(8, spec_method=method)]) == {}


def test_a_pair_needs_four_levels_in_both_modes():
    assert set(pairs_of(FOUR)) == {"p@1000"}
    assert pairs_of([*FOUR[:3], row(8, tok_s_mtp="")]) == {}
    assert pairs_of([row(1), row(1), row(2), row(4)]) == {}


def test_rows_of_one_level_are_averaged():
    found = pairs_of([*FOUR, row(1, tok_s_base="140")])["p@1000"]
    assert found.batch.tokens_per_second[0] == 120


def test_of_several_draft_lengths_the_one_with_most_levels_is_taken():
    found = pairs_of([*FOUR, row(1, spec_tokens_K="5", tok_s_mtp="999", accept_len="4"), row(2, accept_len="2.4")])["p@1000"]
    assert found.mtp.tokens_per_second[0] == 120
    assert found.accept_length == 2.4


def test_where_requests_waited_the_number_that_ran_counts_in_mtp():
    queued = row(128, notes="MTP queued: queue_fraction=1.0, avg_running=117.5")
    assert in_flight(queued, mtp=True) == 117.5
    assert in_flight(queued, mtp=False) == 128
    found = pairs_of([*FOUR, queued])["p@1000"]
    assert (found.mtp.slots, found.batch.slots) == (117.5, 128)


def test_a_table_that_falls_stays_at_what_was_reached():
    assert monotone([1.0, 3.0, 2.0, 4.0]) == (1.0, 3.0, 3.0, 4.0)
    found = pairs_of([*FOUR, row(16, tok_s_mtp="300")])["p@1000"]
    assert found.mtp.tokens_per_second[-2:] == (960, 960)
