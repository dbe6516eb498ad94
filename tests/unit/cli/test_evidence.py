"""`mtpilot evidence`: what is said of a package, of two, and of another tool's files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from mtpilot.cli import exits
from mtpilot.cli.main import app
from mtpilot.evidence.files import write_package
from tests.unit.evidence.runs import environment, records
from tests.unit.evidence.test_importing import INFO, SUMMARY, request, serving

SAMPLE = Path(__file__).parents[2] / "samples" / "throughputprofile" / "accept" / "full.yaml"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["evidence", *map(str, arguments)])


def package(directory: Path, modes: Sequence[str] = ("mtp", "batch")) -> Path:
    found = records(levels=(1, 4), repeats=2, modes=modes)
    write_package(directory, environment(found), found, plots=False)
    return directory


def test_a_whole_package_is_told_with_the_digest_to_compare(tmp_path: Path) -> None:
    run_ = package(tmp_path / "run")
    result = run("verify", run_)
    assert result.exit_code == 0
    assert "5 files, 8 batches, 20 requests; every figure and table made again" in result.output
    assert "Nothing is signed: compare this digest" in result.output
    digest = json.loads(run("verify", run_, "--json").output)["recordsSha256"]
    published = run("verify", run_, "--records-sha256", digest.upper())
    assert "These are the records that were published" in published.output
    other = run("verify", run_, "--records-sha256", "0" * 64)
    assert (other.exit_code, "these are other records" in other.output) == (exits.FAILED, True)


def test_a_profile_tells_the_digest_of_its_records(tmp_path: Path) -> None:
    run_ = package(tmp_path / "run")
    document = yaml.safe_load(SAMPLE.read_text())
    path = tmp_path / "profile.yaml"
    for digest, code in ((json.loads(run("verify", run_, "--json").output)["recordsSha256"], 0), ("0" * 64, exits.FAILED)):
        document["spec"]["provenance"]["recordsSha256"] = digest
        path.write_text(yaml.safe_dump(document))
        assert run("verify", run_, "--profile", path).exit_code == code
    del document["spec"]["provenance"]["recordsSha256"]
    path.write_text(yaml.safe_dump(document))
    assert "0 different recordsSha256, one is needed" in run("verify", run_, "--profile", path).output
    assert run("verify", run_, "--profile", path, "--records-sha256", "0" * 64).exit_code == exits.USAGE


def test_a_changed_package_is_refused_by_verify_and_compare(tmp_path: Path) -> None:
    good, bad = package(tmp_path / "good"), package(tmp_path / "bad")
    table = bad / "tables.json"
    table.write_bytes(table.read_bytes().replace(b"1", b"2", 1))
    result = run("verify", bad, "--json")
    assert result.exit_code == exits.FAILED
    said = json.loads(result.output)
    assert said["whole"] is False
    assert any("tables.json" in problem for problem in said["problems"])
    assert "not as it was written" in run("verify", bad).output
    compared = run("compare", good, bad)
    assert compared.exit_code == exits.FAILED
    assert "bad is not to be trusted" in compared.output
    assert run("verify", tmp_path / "none").exit_code == exits.USAGE
    assert run("compare", good, tmp_path / "none").exit_code == exits.USAGE


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    batch, mtp = package(tmp_path / "b", modes=("batch",)), package(tmp_path / "m", modes=("mtp",))
    said = json.loads(run("compare", batch, mtp, "--json").output)
    assert [(level["concurrency"], level["tokensPerSecond"]["finding"]) for level in said["levels"]] == [(1, "more"), (4, "more")]
    assert said["levels"][0]["tokensPerSecond"]["ratio"] == 1.2
    assert said["warnings"] == []
    shown = run("compare", batch, mtp).output
    assert "note: batch (direct) and mtp (direct) have other limits" in shown
    assert "1.200" in shown


def test_files_of_sglang_become_a_package_that_fits(tmp_path: Path) -> None:
    plain = {name: value for name, value in INFO.items() if not name.startswith("speculative")} | {"max_running_requests": 64}
    plain["internal_states"] = [{"effective_max_running_requests_per_dp": 64}]
    lines = [
        serving(max_concurrency=level, total_output_tokens=round(10_000 * scale * level**power), server_info=info)
        for scale, power, info in ((1.2, 0.8, INFO), (1.0, 0.9, plain))
        for level in (1, 4, 16)
    ]
    (tmp_path / "both.jsonl").write_text("\n".join(map(json.dumps, lines)))
    told = ("--hardware-class", "gpu-x4", "--acceptance", "Natural", "--no-plots")
    result = run("import", "sglang", tmp_path / "both.jsonl", "-o", tmp_path / "run", *told)
    assert result.exit_code == 0, result.output
    assert "6 batches with 0 requests, batch, mtp" in result.output
    assert "Mind: imported from sglang.benchmark.serving, which checks no markers" in result.output
    assert "6 batches have figures as another tool told them" in run("verify", tmp_path / "run").output
    fitted = CliRunner().invoke(app, ["profile", "fit", str(tmp_path / "run"), "-o", str(tmp_path / "p.yaml")])
    assert fitted.exit_code == 0, fitted.output
    assert "Mind: accept lengths are averages since the server's start" in fitted.output
    assert run("verify", tmp_path / "run", "--profile", tmp_path / "p.yaml").exit_code == 0


def test_folders_of_aiperf_become_a_package(tmp_path: Path) -> None:
    folder = tmp_path / "c2"
    folder.mkdir()
    (folder / "profile_export.jsonl").write_text(json.dumps(request(0, 0.0)))
    (folder / "profile_export_aiperf.json").write_text(json.dumps(SUMMARY))
    said = json.loads(run("import", "aiperf", f"mtp={folder}", "-o", tmp_path / "run", "--no-plots", "--json").output)
    assert (said["batches"], said["requests"], said["modes"], said["acceptance"]) == (1, 1, ["mtp"], "SemiSynthetic")
    again = run("import", "aiperf", f"mtp={folder}", "-o", tmp_path / "run", "--no-plots")
    assert (again.exit_code, "is not empty" in again.output) == (exits.FAILED, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sglang", "none.jsonl"), "none.jsonl"),
        (("aiperf", "mtp=none"), "profile_export.jsonl"),
        (("sglang", "x", "--acceptance", "natural"), "--acceptance is one of Natural, SemiSynthetic, Synthetic"),
    ],
)
def test_what_cannot_be_imported_is_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run("import", *arguments, "-o", tmp_path / "run")
    assert result.exit_code == exits.USAGE
    assert words in result.output
