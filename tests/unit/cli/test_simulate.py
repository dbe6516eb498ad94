"""`mtpilot simulate`: traces, schedules and profiles in; tables, JSON and plots out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtpilot.cli import exits
from mtpilot.cli.main import app
from mtpilot.simulate.catalogue import NAMES

DATA = Path(__file__).parents[3] / "e2e" / "data"
PROFILE = ["--profile", str(DATA / "profiles" / "qwen3.6-27b-320-rtx-pro-6000-x1.yaml")]
TRACE = ["--trace", str(DATA / "traces" / "azure2023_conv_first6000.csv")]
QUICK = ["--policy", "always_mtp", "--policy", "predictive", "--replicas", "2"]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["simulate", *arguments], env={"COLUMNS": "160"})


def document(*arguments: str) -> Any:
    result = invoke(*arguments, "--json", "-")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["comparisons"]


def test_a_table_of_every_policy_that_was_asked_for() -> None:
    result = invoke(*PROFILE, *TRACE, *QUICK)
    assert result.exit_code == 0, result.output
    for word in ("always_mtp", "predictive", "optimum", "/ optimum", "flips", "p99 s", "azure2023_conv_first6000", "2 replicas"):
        assert word in result.output
    assert "always_batch" not in result.output


def test_every_number_of_the_table_can_be_read_on_80_columns() -> None:
    result = CliRunner().invoke(app, ["simulate", *PROFILE, *TRACE, *QUICK], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert "overload" in result.output


def test_json_goes_to_a_file_beside_the_table_and_a_plot_to_another(tmp_path: Path) -> None:
    out, plot = tmp_path / "out.json", tmp_path / "out.png"
    result = invoke(*PROFILE, *TRACE, *QUICK, "--json", str(out), "--plot", str(plot), "--flip", "61")
    assert result.exit_code == 0, result.output
    assert "predictive" in result.output
    [found] = json.loads(out.read_text())["comparisons"]
    assert (found["replicas"], found["flipMinutes"], found["load"]["minutes"]) == (2, 2, 20)
    assert found["policies"]["optimum"]["ratio"] == 1.0
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_every_load_meets_every_profile(tmp_path: Path) -> None:
    schedule = tmp_path / "night.csv"
    schedule.write_text("minutes,clients\n20,4\n20,64\n")
    other = ["--profile", str(DATA / "profiles" / "qwen3.6-27b-427-rtx-pro-6000-x1.yaml")]
    found = document(*PROFILE, *other, *TRACE, "--closed", str(schedule), "--policy", "always_mtp")
    assert [(one["profile"][:15], one["load"]["kind"]) for one in found] == [
        ("qwen3.6-27b-320", "Open"), ("qwen3.6-27b-320", "Closed"), ("qwen3.6-27b-427", "Open"), ("qwen3.6-27b-427", "Closed"),
    ]  # fmt: skip
    assert "tokens" in found[1]["reference"]


def test_the_load_is_scaled_unless_it_shall_be_as_recorded() -> None:
    half, full, own = (
        document(*PROFILE, *TRACE, "--policy", "always_batch", *more)[0]["policies"]["always_batch"]["tokensPerSecond"]
        for more in (["--load", "0.5"], ["--load", "1.0"], ["--recorded"])
    )
    assert full == pytest.approx(2 * half, rel=0.01)
    assert own != pytest.approx(full, rel=0.01)


def test_a_part_of_a_trace() -> None:
    [found] = document(*PROFILE, *TRACE, "--policy", "always_mtp", "--first-minute", "5", "--minutes", "7", "--series")
    assert found["load"]["minutes"] == len(found["policies"]["always_mtp"]["series"]["queued"]) == 7


def test_policies_are_told_by_name() -> None:
    result = invoke("--list-policies")
    assert result.exit_code == 0
    assert all(name in result.output for name in NAMES)
    told = dict(line.split(maxsplit=1) for line in result.output.splitlines())
    assert {name for name, text in told.items() if "no choice for --policy" not in text} == set(NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*PROFILE], "nothing to replay: --trace or --closed is needed"),
        ([*PROFILE, *TRACE, "--policy", "best"], "no policy best; there are always_mtp"),
        ([*PROFILE, "--trace", "nowhere.csv"], "nowhere.csv"),
        ([*TRACE, "--profile", "nowhere.yaml"], "nowhere.yaml"),
        ([*PROFILE, "--trace", str(DATA / "README.md")], "README:1: unknown columns"),
        ([*PROFILE, *TRACE, "--first-minute", "19"], "nothing is left of it from minute 19 on"),
        ([*TRACE, "--profile", str(DATA / "traces" / "README.md")], "README.md"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == exits.USAGE
    assert message in " ".join(result.output.split())


def test_what_cannot_be_written_fails(tmp_path: Path) -> None:
    result = invoke(*PROFILE, *TRACE, "--policy", "always_mtp", "--json", str(tmp_path / "no" / "out.json"))
    assert result.exit_code == exits.FAILED
