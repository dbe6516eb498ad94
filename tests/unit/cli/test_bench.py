"""`mtpilot bench`: what it refuses before it sends anything."""

import json

import pytest
from typer.testing import CliRunner

from mtpilot.cli.bench_show import show
from mtpilot.cli.main import app

RUNNER = CliRunner()
URL = "mtp=http://127.0.0.1:9"


def _run(*words: str):
    return RUNNER.invoke(app, ["bench", *words])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((URL, "--concurrency", "1,many"), 2, "many is neither a number"),
        ((URL, "--concurrency", "0"), 2, "0 is neither a number"),
        ((URL, "--sampling", "warm"), 2, "warm"),
        ((URL, "--endpoint", "embed"), 2, "embed"),
        ((URL, "--acceptance", "Some"), 2, "Some"),
        ((URL, "--domain", "law"), 2, "no domain law"),
        ((URL, "--prompts", "missing.jsonl"), 2, "missing.jsonl"),
        ((URL, "--trace", "missing.csv"), 2, "missing.csv"),
        ((URL, "--prompts", "a", "--domain", "code"), 2, "goes without"),
        (("fast=http://h",), 2, "the mode is one of"),
        ((URL, "--continue"), 3, "no run to go on with"),
        ((URL,), 1, "does not answer"),
    ],
)
def test_exit_statuses(tmp_path, words, code, told):
    found = _run(*words, "--out", str(tmp_path / "out"))
    assert (found.exit_code, told in found.output) == (code, True), found.output
    assert not (tmp_path / "out").exists()


def test_a_directory_with_something_in_it_and_a_stopped_run_are_left_alone(tmp_path):
    (tmp_path / "kept.txt").write_text(json.dumps({}))
    found = _run(URL, "--out", str(tmp_path))
    assert (found.exit_code, "not empty" in found.output) == (2, True)
    (tmp_path / "run.part").mkdir()
    assert _run(URL, "--out", str(tmp_path / "run")).exit_code == 2


def test_levels_warnings_and_the_next_step_are_printed(capsys):
    mean = {"mean": 123.44, "spread": None, "least": 123.44, "greatest": 123.44}
    level = {
        "endpoint": "chat", "route": "direct", "sampling": "greedy", "context_bucket": 1000, "concurrency": 16, "rate_per_second": None,
        "mode": "mtp", "tokens_per_second": mean, "per_request_tokens_per_second": mean, "ttft_p99_seconds": None, "running_mean": 15.9,
        "queue_mean": None, "accept_length": {**mean, "mean": 2.5},
    }  # fmt: skip
    levels = [level, {**level, "concurrency": 0, "rate_per_second": 4.0, "tokens_per_second": None}]
    show(
        {
            "package": "run",
            "batches": 2,
            "requests": 20,
            "failed": 0,
            "leaked": 0,
            "acceptance": "Natural",
            "warnings": ["mind this"],
            "levels": levels,
        }
    )
    printed = capsys.readouterr().out
    for words in ("chat by direct, greedy, 1000 tokens", "123.4", "2.50", "4/s", "! mind this", "mtpilot profile fit run"):
        assert words in printed
