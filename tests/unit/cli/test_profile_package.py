"""`mtpilot profile fit DIR`: a package becomes a profile with its digest, or none, with the reason."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from mtpilot.cli import exits
from mtpilot.cli.main import app
from mtpilot.evidence.environment import Environment
from mtpilot.evidence.files import write_package
from mtpilot.evidence.package import RECORDS
from mtpilot.evidence.records import BatchRecord, Record, Sampling
from mtpilot.evidence.sums import sha256_hex
from tests.unit.evidence.runs import LEVELS, batch_of, engine, environment, rate, records, request

Changed = tuple[list[Record], Environment]


def package(directory: Path, found: Sequence[Record] | None = None, **changes: Any) -> Path:
    """A package of a run, without plots."""
    taken = records(repeats=2) if found is None else list(found)
    write_package(directory / "run", environment(taken, **changes), taken, plots=False)
    return directory / "run"


def fit(directory: Path, *more: object) -> Result:
    return CliRunner().invoke(app, ["profile", "fit", str(directory / "run"), "-o", str(directory / "p.yaml"), *map(str, more)])


def test_a_package_tells_everything_and_its_digest_goes_into_the_provenance(tmp_path: Path) -> None:
    run = package(tmp_path, flags_sha256="b" * 64)
    result = fit(tmp_path)
    assert result.exit_code == 0, result.output
    spec = yaml.safe_load((tmp_path / "p.yaml").read_text())["spec"]
    origin = spec["provenance"]
    assert origin["recordsSha256"] == sha256_hex((run / RECORDS).read_bytes())
    assert origin["source"] == f"run run-1, 84 requests; SHA256SUMS {sha256_hex((run / 'SHA256SUMS').read_bytes())}"
    assert (origin["engine"], origin["measuredAt"], origin["flagsSha256"]) == ("sglang 0.5.23", "2026-11-20T09:30:00Z", "b" * 64)
    assert (spec["model"]["source"], spec["hardwareClass"], spec["acceptance"]) == ("org/model", "gpu-x4", "Natural")
    assert spec["fit"]["draftTokens"] == 1
    mtp, batch = spec["curves"]
    assert (mtp["slots"], mtp["acceptLength"], mtp["contextTokens"], batch["slots"]) == (24, "1.8", 550, 64)
    assert [point["concurrency"] for point in mtp["points"]] == list(LEVELS)
    assert float(mtp["points"][1]["outputTokensPerSecond"]) == pytest.approx(0.995 * rate("mtp", 4), rel=1e-3)


def leaking(found: list[Record]) -> list[Record]:
    requests = [request(99, index, concurrency=2, foreign_markers=("M7",)) for index in range(2)]
    number = max(record.batch for record in found) + 1
    moved = [replace(one, batch=number) for one in requests]
    return [*found, *moved, batch_of(moved)]


def changed(found: list[Record], change: Callable[[BatchRecord], dict[str, Any]]) -> list[Record]:
    return [replace(record, **change(record)) if isinstance(record, BatchRecord) else record for record in found]


SHORT = engine("mtp", slots=9, asked_slots=48)
REFUSED: list[tuple[str, Callable[[list[Record]], list[Record]], dict[str, Any]]] = [
    ("2 of 44 answers have another request's marker (mtp at 2): requests leak into one another", leaking, {}),
    ("mtp: the engine runs 9 requests at most, its arguments ask for 48", list, {"engines": (SHORT, engine("batch"))}),
    ("the run did not finish", list, {"finished_at": None}),
    (
        "mtp: the engine told 24 slots at the start and 16 during the run",
        lambda found: changed(found, lambda one: {"slots": 16} if one.mode == "mtp" else {}),
        {},
    ),
    (
        "mtp: accept length 2.2 with 1 drafted tokens",
        lambda found: changed(found, lambda one: {"accept_length": 2.2} if one.mode == "mtp" else {}),
        {},
    ),
]


@pytest.mark.parametrize(("words", "change", "about"), REFUSED, ids=[words[:30] for words, _, _ in REFUSED])
def test_an_implausible_run_becomes_no_profile_and_says_why(tmp_path: Path, words: str, change: Any, about: dict[str, Any]) -> None:
    package(tmp_path, change(records(repeats=1)), **about)
    result = fit(tmp_path)
    assert result.exit_code == exits.FAILED
    assert "becomes no profile" in result.output
    assert words in result.output
    assert not (tmp_path / "p.yaml").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"marker_ok": False}, "mtp: 21 of 21 answers lack their own marker, more than 10%"),
        ({"error": "HTTP 500"}, "mtp: 21 of 21 requests failed, more than 5%"),
    ],
)
def test_answers_that_lack_their_marker_or_failed_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    package(tmp_path, records(repeats=1, **changes))
    result = fit(tmp_path)
    assert result.exit_code == exits.FAILED
    assert words in result.output


def test_points_that_no_engine_could_have_measured_are_refused(tmp_path: Path) -> None:
    """Rates that rise and fall from level to level."""
    found: list[Record] = []
    plan = [(mode, level) for mode in ("mtp", "batch") for level in (1, 2, 4, 8, 16)]
    for number, (mode, level) in enumerate(plan):
        seconds = 100 * level / rate(mode, level) * (2.5 if level in (2, 8) else 1.0)
        requests = [request(number, index, mode, level, latency_seconds=0.1 + seconds) for index in range(level)]
        found += [*requests, batch_of(requests)]
    package(tmp_path, found)
    result = fit(tmp_path)
    assert result.exit_code == exits.FAILED
    assert "the step-time model misses the points of a mode by" in result.output
    assert "more than 15%" in result.output


def test_a_package_with_a_changed_byte_becomes_no_profile(tmp_path: Path) -> None:
    run = package(tmp_path, records(repeats=1))
    path = run / RECORDS
    path.write_bytes(path.read_bytes().replace(b'"completion_tokens":100', b'"completion_tokens":900', 1))
    result = fit(tmp_path)
    assert result.exit_code == exits.FAILED
    assert "records.jsonl was changed" in result.output


def test_levels_where_requests_waited_are_left_out_and_named(tmp_path: Path) -> None:
    found = changed(
        records(levels=(1, 4, 16, 24, 32), repeats=1), lambda one: {"queue_measured": one.mode == "mtp" and one.concurrency == 32}
    )
    package(tmp_path, found)
    result = fit(tmp_path)
    assert result.exit_code == 0, result.output
    assert "mtp at 32 requests is left out: some waited for a slot" in result.output
    assert [point["concurrency"] for point in yaml.safe_load((tmp_path / "p.yaml").read_text())["spec"]["curves"][0]["points"]] == [
        1,
        4,
        16,
        24,
    ]


def test_of_several_kinds_one_is_taken_or_asked_for(tmp_path: Path) -> None:
    """Sampled before greedy; an endpoint is chosen by the user."""
    found: list[Record] = []
    kinds = [("chat", Sampling.GREEDY), ("chat", Sampling.SAMPLED), ("generate", Sampling.SAMPLED)]
    for mode in ("mtp", "batch"):
        for endpoint, sampling in kinds:
            for level in LEVELS:
                number = len([one for one in found if isinstance(one, BatchRecord)])
                length = 100 if sampling is Sampling.GREEDY else 50
                requests = [
                    request(number, index, mode, level, endpoint=endpoint, sampling=sampling, completion_tokens=length)
                    for index in range(level)
                ]
                found += [*requests, batch_of(requests)]
    package(tmp_path, found)
    asked = fit(tmp_path)
    assert asked.exit_code == exits.USAGE
    assert "it has the endpoints chat, generate: choose one with --endpoint" in asked.output
    assert fit(tmp_path, "--endpoint", "chat").exit_code == 0
    assert yaml.safe_load((tmp_path / "p.yaml").read_text())["spec"]["curves"][0]["contextTokens"] == 525
    assert fit(tmp_path, "--endpoint", "chat", "--sampling", "greedy").exit_code == 0
    assert yaml.safe_load((tmp_path / "p.yaml").read_text())["spec"]["curves"][0]["contextTokens"] == 550


def test_a_directory_that_is_no_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    result = fit(tmp_path)
    assert result.exit_code == exits.FAILED
    assert "SHA256SUMS is missing" in result.output
