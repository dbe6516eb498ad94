"""Resolution: mode, slots and the values the server reports, from its arguments."""

from dataclasses import replace

import pytest

from tests.unit.sglang_sim.running import FAST, resolve


@pytest.mark.parametrize(
    ("words", "mode", "requested", "slots"),
    [
        ("", "batch", None, 68),
        ("--max-running-requests 8", "batch", 8, 8),
        ("--max-running-requests 500", "batch", 500, 68),
        ("--speculative-algorithm NEXTN", "mtp", 48, 24),
        ("--speculative-algorithm EAGLE --max-running-requests 10", "mtp", 10, 10),
        ("--max-total-tokens 40 --context-length 30", "batch", None, 20),
    ],
)
def test_slots_are_the_least_of_flag_curve_and_kv(words, mode, requested, slots):
    engine = resolve(words)
    assert (engine.mode, engine.requested_slots, engine.slots) == (mode, requested, slots)


def test_speculation_without_numbers_takes_the_real_defaults():
    engine = resolve("--speculative-algorithm NEXTN")
    assert (engine.algorithm, engine.num_steps, engine.num_draft_tokens, engine.accept_length) == ("EAGLE", 3, 4, 2.0)


def test_top_k_one_forces_the_draft_tokens():
    words = "--speculative-algorithm EAGLE --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 9"
    assert resolve(words).num_draft_tokens == 2


@pytest.mark.parametrize("words", ["--speculative-algorithm NEXTM", "--speculative-algorithm NEXTN --speculative-eagle-topk 1"])
def test_what_does_not_resolve_is_refused(words):
    with pytest.raises(ValueError, match="peculative"):
        resolve(words)


def test_a_batch_server_accepts_one_token_a_step_whatever_the_setting():
    chosen = replace(FAST, accept_length=3.0)
    assert resolve("", chosen).accept_length == 1.0
    assert resolve("--speculative-algorithm NEXTN", chosen).accept_length == 3.0
