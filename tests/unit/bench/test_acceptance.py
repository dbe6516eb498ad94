"""Accept length of one batch, and signs that it is none of real text."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from mtpilot.api.throughput_profile import Acceptance
from mtpilot.bench.acceptance import Counters, at_bound, counted, is_repetitive, parse_counters
from mtpilot.bench.markers import row
from mtpilot.bench.planning import Levels, Settings
from mtpilot.bench.prompts import built_in
from mtpilot.bench.recording import batch_record, request_record
from mtpilot.bench.warnings import Seen, acceptance_of, warnings_of
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.records import BatchRecord
from tests.unit.bench.made import batch, came, chat_bytes, numbered, sent, target

RECORDED = Path(__file__).parents[2] / "contract" / "recordings" / "sglang-0.5.23"
SETTINGS = Settings(levels=Levels(), output_tokens=12)
NOTHING = Seen()


def _record(*, verify_calls: int = 100, accept_length: float | None = 2.5, **fields) -> BatchRecord:
    made = batch(4)
    answers = [
        request_record(numbered(made), SETTINGS, sent(row("r", 0, at), at), came(chat_bytes([row("r", 0, at).marker])), given_out=()).record
        for at in range(4)
    ]
    return replace(batch_record(numbered(made), answers, [], None), accept_length=accept_length, verify_calls=verify_calls, **fields)


def _engine(
    mode: str = "mtp", *, slots: int = 24, asked: int | None = 24, command: str = "--max-running-requests 24", **arguments
) -> Engine:
    return Engine(
        mode=mode, route="direct", url="", engine="sglang 0.5.23", model="m", slots=slots, asked_slots=asked, launch_command=command,
        arguments={"tp_size": 1, "max_running_requests": asked, **arguments}, server_info={}, flags_sha256="",
    )  # fmt: skip


def test_counters_of_all_ranks_are_added_and_what_is_no_number_is_none():
    page = (
        'sglang:generation_tokens_total{dp_rank="0"} 100.0\nsglang:generation_tokens_total{dp_rank="1"} 50.0 1700000000\n'
        'sglang:spec_verify_calls_total{a="b } c"} NaN\n# HELP sglang:num_requests_total x\nsglang:num_requests_total 3\n'
    )
    assert parse_counters(page) == Counters(generated_tokens=150, requests=3)
    assert parse_counters("nothing of ours 1\n") == Counters()


@pytest.mark.parametrize("path", sorted(RECORDED.glob("metrics*.txt")), ids=lambda path: path.stem)
def test_the_engines_recorded_pages_have_the_counters(path):
    assert parse_counters(path.read_text()).requests is not None


def test_accept_length_is_of_the_batch_alone():
    before = Counters(generated_tokens=10_000, verify_calls=9_000, requests=50)
    after = Counters(generated_tokens=10_404, verify_calls=9_160, requests=54)
    found = counted(before, after, tokens=404, requests=4)
    assert (found.generated_tokens, found.verify_calls, found.accept_length, found.others) == (404, 160, 2.5, False)


def test_others_requests_restarts_and_missing_counters_leave_it_unknown():
    before = Counters(generated_tokens=100, verify_calls=10)
    others = counted(before, Counters(generated_tokens=700, verify_calls=200), tokens=400, requests=4)
    assert (others.others, others.accept_length) == (True, None)
    restarted = counted(before, Counters(generated_tokens=50, verify_calls=5), tokens=50, requests=4)
    assert (restarted.generated_tokens, restarted.accept_length) == (None, None)
    plain = counted(Counters(generated_tokens=0), Counters(generated_tokens=400), tokens=400, requests=4)
    assert (plain.verify_calls, plain.accept_length, plain.retracted_tokens) == (None, None, 0)
    first = counted(Counters(generated_tokens=0), Counters(generated_tokens=404, verify_calls=200), tokens=404, requests=4)
    assert first.accept_length == 2.0


def test_repeated_words_are_told_from_text():
    assert is_repetitive(["amber cedar grove birch " * 80])
    passages = [text for texts in built_in().passages.values() for text in texts]
    assert not is_repetitive([" ".join(random.Random(3).sample(passages, 3)) for _ in range(5)])
    assert not is_repetitive(["short short"])


def test_acceptance_is_what_the_answers_show_unless_it_was_told():
    pinned, engines = [_record(accept_length=3.98)], [_engine(speculative_num_draft_tokens=4)]
    assert at_bound(pinned[0], engines[0].arguments)
    assert not at_bound(_record(accept_length=3.98, verify_calls=20), engines[0].arguments)
    assert acceptance_of(None, SETTINGS, pinned, engines, Seen()) == "Synthetic"
    assert acceptance_of(None, SETTINGS, [_record()], engines, Seen(repetitive=True)) == "Synthetic"
    assert acceptance_of(None, SETTINGS, [_record()], engines, Seen()) == "Natural"
    assert acceptance_of(Acceptance.SEMI_SYNTHETIC, SETTINGS, pinned, engines, Seen()) == "SemiSynthetic"


def _warnings(records, engines, seen=NOTHING) -> str:
    targets = [target(engine.mode, slots=engine.slots) for engine in engines]
    return "\n".join(warnings_of(SETTINGS, targets, engines, records, seen))


def test_a_sound_run_has_no_warnings():
    assert _warnings([_record()], [_engine()]) == ""


def test_unlike_engines_and_slots_that_nobody_chose_are_said():
    unlike = _warnings([_record()], [_engine(), _engine("batch", tp_size=2)])
    assert "differ in more than drafting" in unlike
    assert "tp_size" in unlike
    assert "only SGLang's default" in _warnings([_record()], [_engine(slots=48, asked=48, command="sglang serve m")])
    assert "9 slots fit of the 47 asked for" in _warnings([_record()], [_engine(slots=9, asked=47)])


@pytest.mark.parametrize(
    ("record", "seen", "words"),
    [
        (_record(accept_length=4.0), Seen(), "every draft was accepted"),
        (_record(), Seen(repetitive=True), "repeat themselves"),
        (_record(accept_length=None), Seen(), "--enable-metrics"),
        (_record(queue_measured=True), Seen(), "requests waited though there were slots"),
        (_record(retracted_tokens=7), Seen(), "7 output tokens were thrown away"),
        (_record(), Seen(others=("mtp, 4 at once",)), "other requests ran beside 1 batches"),
    ],
)
def test_what_spoils_a_run_is_said(record, seen, words):
    assert words in _warnings([record], [_engine(speculative_num_draft_tokens=4)], seen)


def test_leaks_failures_lost_markers_and_a_late_generator_are_said():
    record = _record()
    figures = replace(record.figures, leaked=2, failed=1, markers_missing=3, lag_p99_seconds=0.4)
    told = _warnings([replace(record, figures=figures)], [_engine()])
    for words in (
        "2 of 4 answers have another",
        "1 of 4 requests failed",
        "3 of 4 answers lack",
        "the generator itself was late, by 400 ms",
    ):
        assert words in told
