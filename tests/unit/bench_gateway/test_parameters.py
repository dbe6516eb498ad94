"""The load is bounded, the same for everybody, and below what the fleet can serve."""

import pytest

from e2e.bench_gateway.omlx import OUTPUT_TOKENS, TABLES, Sent, throughput
from e2e.bench_gateway.parameters import CURVE, SLOTS, Parameters, quick
from sglang_sim import curves


def test_the_load_is_the_same_each_time_and_has_its_shares():
    parameters = Parameters()
    load = parameters.mixed_load()
    assert load == parameters.mixed_load()
    seconds = sum(seconds for seconds, _ in parameters.phases)
    share = load.output_tokens / seconds / (parameters.full_tokens_per_second * parameters.time_scale)
    assert share == pytest.approx(sum(length * share for length, share in parameters.phases) / seconds, rel=0.15)
    assert len(load.requests) > 200
    assert len(quick(parameters).mixed_load().requests) < 100


def test_full_throughput_and_slots_are_the_curves():
    modes = curves.load(str(CURVE)).modes
    assert {mode: curve.slots for mode, curve in modes.items()} == SLOTS
    full = sum(modes[mode].tokens_per_second(SLOTS[mode]) for mode in Parameters().modes)
    assert Parameters().full_tokens_per_second == pytest.approx(full)


def test_the_limit_is_the_profiles_crossover():
    assert Parameters().contention_limit == 11


@pytest.mark.parametrize("name", ["greedy", "sampled"])
def test_the_omlx_curve_has_the_tables_rates(name):
    table = TABLES[name]
    modes = curves.from_document(table.curve()).modes
    assert [modes["mtp"].tokens_per_second(count) for count in (1, 4)] == pytest.approx([table.mtp_alone, table.mixed_four])
    assert [modes["batch"].tokens_per_second(count) for count in (1, 4)] == pytest.approx([table.plain_alone, table.plain_four])


def test_throughput_leaves_out_the_longest_wait_for_a_first_token():
    group = [Sent(tokens=OUTPUT_TOKENS, ttft_seconds=ttft, ended_seconds=5.0, mode="") for ttft in (0.5, 1.0)]
    assert throughput(group) == pytest.approx(2 * OUTPUT_TOKENS / 4.0)
