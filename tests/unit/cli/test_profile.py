"""`mtpilot profile`: what is read, written, refused and said."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from mtpilot.cli import exits
from mtpilot.cli.main import app

REPOSITORY = Path(__file__).parents[3]
TABLE = REPOSITORY / "e2e" / "data" / "mtp_curves.csv"
POINTS = REPOSITORY / "e2e" / "data" / "points" / "qwen3.5-122b.csv"
SAMPLES = REPOSITORY / "tests" / "samples" / "throughputprofile"
TOLD = ("--model", "hf://Qwen/Qwen3.5-122B-A10B", "--hardware-class", "rtx-pro-6000-x4", "--acceptance", "Synthetic")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["profile", *map(str, arguments)])


def fit(path: Path, output: Path, *more: object) -> dict[str, Any]:
    """Fit with success; the manifest."""
    result = run("fit", path, "-o", output, *TOLD, *more)
    assert result.exit_code == 0, result.output
    return dict(yaml.safe_load(output.read_text()))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    output = tmp_path / "profile.yaml"
    fit(POINTS, output, "--draft-tokens", 1, "--engine", "sglang 0.5.23")
    return output


def edited(path: Path, change: Any, name: str = "edited.yaml") -> Path:
    """A copy of a manifest that `change` has been at."""
    document = yaml.safe_load(path.read_text())
    change(document)
    copy = path.parent / name
    copy.write_text(yaml.safe_dump(document))
    return copy


def test_a_fit_writes_a_manifest_with_its_provenance(tmp_path: Path) -> None:
    found = fit(POINTS, tmp_path / "p.yaml", "--draft-tokens", 1, "-n", "team-a", "--measured-at", "2026-11-20T09:00:00Z")
    assert (found["kind"], found["metadata"]) == (
        "ThroughputProfile",
        {"name": "qwen3.5-122b-a10b-rtx-pro-6000-x4", "namespace": "team-a"},
    )
    assert found["spec"]["provenance"]["source"] == "qwen3.5-122b.csv"
    assert len(found["spec"]["provenance"]["recordsSha256"]) == 64
    assert found["spec"]["fit"]["method"] == "StepTime"
    assert found["status"]["verdict"] == "Flip"


def test_records_tell_what_options_need_not(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    facts = {
        "model": "hf://org/m", "hardware_class": "gpu-x1", "acceptance": "Natural", "engine": "sglang 0.5.23",
        "draft_tokens": 3, "flags_sha256": "a" * 64,
    }  # fmt: skip
    lines = [
        facts | {"mode": mode, "concurrency": level, "output_tokens_per_second": scale * level**0.8 * noise, "context_tokens": 2000}
        for mode, scale in (("mtp", 120), ("batch", 100))
        for level in (1, 2, 4, 8, 16)
        for noise in (0.95, 1.05)
    ]
    records.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    output = tmp_path / "p.yaml"
    result = run("fit", records, "-o", output, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)
    assert said["verdict"] == "MtpOnly"
    assert float(said["fit"]["noise"]) >= 0.07  # the spread of the repeats, at least
    spec = yaml.safe_load(output.read_text())["spec"]
    assert spec["provenance"]["engine"] == "sglang 0.5.23"
    assert spec["provenance"]["flagsSha256"] == "a" * 64
    assert [point["concurrency"] for point in spec["curves"][0]["points"]] == [1, 2, 4, 8, 16]


def test_a_wide_table_needs_a_pair_and_takes_its_words(tmp_path: Path) -> None:
    output = tmp_path / "p.yaml"
    refused = run("fit", TABLE, "-o", output, *TOLD)
    assert refused.exit_code == exits.USAGE
    assert "choose a pair with --pair" in refused.output
    result = run("fit", TABLE, "--pair", "vllm-q35-397b-awq", "--context", 0, "--context", 16384, "-o", output, *TOLD[:4])
    assert result.exit_code == 0, result.output
    spec = yaml.safe_load(output.read_text())["spec"]
    assert (spec["acceptance"], spec["provenance"]["engine"]) == ("SemiSynthetic", "vLLM 0.17.0rc1")
    assert {curve["contextTokens"] for curve in spec["curves"]} == {1, 16_384}


def test_without_drafted_tokens_the_table_is_used_and_it_says_why(tmp_path: Path) -> None:
    result = run("fit", POINTS, "-o", tmp_path / "p.yaml", *TOLD)
    assert "Interpolation of the table" in result.output
    assert "the number of drafted tokens is not known" in result.output


def test_stdout_is_the_manifest_alone(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["profile", "fit", str(POINTS), "-o", "-", *TOLD])
    assert yaml.safe_load(result.stdout)["kind"] == "ThroughputProfile"
    assert "batch is better above" in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("mode,concurrency,output_tokens_per_second\nmtp,1,fast\n", "row 1: output_tokens_per_second is no number"),
        ("mode,concurrency,output_tokens_per_second,engine\nmtp,1,1,a\nbatch,1,1,b\n", "engine differs between rows: a, b"),
        ("mode,concurrency,output_tokens_per_second,per_request_tokens_per_second\nmtp,1,10,20\n", "must be above 0 and not exceed"),
    ],
)
def test_rows_that_cannot_be_fitted_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text(text)
    result = run("fit", path, "-o", tmp_path / "p.yaml", *TOLD)
    assert result.exit_code == exits.USAGE
    assert words in result.output
    assert not (tmp_path / "p.yaml").exists()


def test_what_is_not_told_is_asked_for_and_a_missing_file_named(tmp_path: Path) -> None:
    result = run("fit", POINTS, "-o", tmp_path / "p.yaml", "--acceptance", "Natural")
    assert result.exit_code == exits.USAGE
    assert "give --model, --hardware-class" in result.output
    assert run("fit", tmp_path / "none.csv", "-o", tmp_path / "p.yaml", *TOLD).exit_code == exits.USAGE
    assert run("fit", POINTS, "-o", tmp_path / "p.yaml", *TOLD, "--experts", 8).exit_code == exits.USAGE


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (("--acceptance", "natural"), "--acceptance, or the column of that name, must be one of Natural, SemiSynthetic, Synthetic"),
        (("--hardware-class", "RTX PRO"), "spec.hardwareClass: "),
        (("--source", ""), "spec.provenance.source: "),
        (("--flags-sha256", "1"), "spec.provenance.flagsSha256: "),
        (("--measured-at", "yesterday"), "spec.provenance.measuredAt: no time"),
        (("--draft-tokens", 300), "spec.fit.draftTokens: "),
        (("--context-tokens", 2**25), "spec.curves[].contextTokens: "),
    ],
)
def test_what_an_option_says_wrong_is_refused_by_its_field(tmp_path: Path, told: tuple[object, ...], words: str) -> None:
    points = tmp_path / "points.csv"
    rows = [f"{mode},{level},{level}" for mode in ("mtp", "batch") for level in (1, 4, 16)]
    points.write_text("\n".join(("mode,concurrency,output_tokens_per_second", *rows)))
    result = run("fit", points, "-o", tmp_path / "p.yaml", *TOLD, *told)
    assert result.exit_code == exits.USAGE
    assert words in result.output


def test_without_the_extra_a_fit_and_a_plot_name_it(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    fitted = ("fit", POINTS, "-o", tmp_path / "p.yaml", *TOLD)
    for command in ((*fitted, "--draft-tokens", 1), ("merge", made, made, "-o", tmp_path / "p.yaml")):
        result = run(*command)
        assert (result.exit_code, result.output) == (exits.FAILED, "mtpilot: a fit needs scipy: pip install 'mtpilot[analysis]'\n")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run(*fitted, "--plot", tmp_path / "p.png")
    assert result.exit_code == exits.FAILED
    assert "a plot needs matplotlib: pip install 'mtpilot[analysis]'" in result.output


def test_a_plot_is_drawn_and_an_unknown_format_refused(tmp_path: Path) -> None:
    fit(POINTS, tmp_path / "p.yaml", "--draft-tokens", 1, "--plot", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    result = run("fit", POINTS, "-o", tmp_path / "p.yaml", *TOLD, "--plot", tmp_path / "p.odd")
    assert result.exit_code == exits.FAILED
    assert "odd" in result.output


def test_a_plot_has_a_panel_for_each_context(tmp_path: Path) -> None:
    result = run(
        "fit",
        TABLE,
        "--pair",
        "vllm-q35-397b-awq",
        "--context",
        0,
        "--context",
        16384,
        "-o",
        tmp_path / "p.yaml",
        *TOLD[:4],
        "--plot",
        tmp_path / "p.svg",
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


def test_check_says_what_a_good_profile_concludes(made: Path) -> None:
    result = run("check", made)
    assert result.exit_code == 0
    assert "batch is better above" in result.output
    assert "Mind: " in result.output
    said = json.loads(run("check", made, "--json").output)["profiles"][0]
    assert (said["problems"], said["verdict"], said["crossover"]["bound"]) == ([], "Flip", "Slots")


def test_check_tells_that_edited_points_have_no_fit(made: Path) -> None:
    copy = edited(made, lambda document: document["spec"]["curves"][0]["points"][0].update(outputTokensPerSecond="125"))
    result = run("check", copy)
    assert result.exit_code == 0
    assert "made from other points" in result.output
    assert "No fit: a power law" in result.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["spec"]["curves"][0]["points"].reverse(), "spec.curves[0].points: points must stand by rising concurrency"),
        (lambda d: d["spec"]["curves"][0].update(slot=24), "spec.curves[0].slot: unknown field"),
        (lambda d: d["spec"]["curves"][0].update(slot=24), "is slots meant?"),
        (lambda d: d["spec"].pop("acceptance"), "spec.acceptance: Field required"),
        (lambda d: d["spec"].update(acceptence=d["spec"].pop("acceptance")), "spec.acceptence: unknown field; is acceptance meant?"),
        (lambda d: d["spec"]["curves"][0].update(slots="many"), "spec.curves[0].slots"),
        (lambda d: d["spec"]["curves"].pop(0), "spec.curves: no contextTokens has a curve of both modes"),
    ],
)
def test_check_fails_on_what_cannot_be_used(made: Path, change: Any, words: str) -> None:
    result = run("check", edited(made, change))
    assert result.exit_code == exits.FAILED
    assert words in result.output
    assert json.loads(run("check", edited(made, change), "--json").output)["profiles"][0]["problems"]


def test_check_takes_hand_written_samples_and_no_other_kind(tmp_path: Path) -> None:
    assert run("check", SAMPLES / "accept" / "full.yaml").exit_code == 0
    other = REPOSITORY / "docs" / "examples" / "deepseek-v3-h200-x8.yaml"
    assert run("check", other).exit_code == exits.USAGE
    (tmp_path / "bad.yaml").write_text("a: [")
    assert run("check", tmp_path / "bad.yaml").exit_code == exits.USAGE


def test_merge_joins_levels_and_fits_them_together(made: Path, tmp_path: Path) -> None:
    def only(kept: tuple[int, ...]) -> Any:
        def change(document: Any) -> None:
            for curve in document["spec"]["curves"]:
                curve["points"] = [point for point in curve["points"] if point["concurrency"] in kept]

        return change

    low, high = edited(made, only((1, 2, 4, 8)), "low.yaml"), edited(made, only((8, 16, 24, 32, 48, 68)), "high.yaml")
    output = tmp_path / "merged.yaml"
    result = run("merge", low, high, "-o", output, "--name", "both")
    assert result.exit_code == 0, result.output
    whole, joined = yaml.safe_load(made.read_text()), yaml.safe_load(output.read_text())
    assert joined["spec"]["curves"] == whole["spec"]["curves"]
    assert joined["spec"]["fit"] == whole["spec"]["fit"]
    assert joined["metadata"]["name"] == "both"
    assert joined["spec"]["provenance"]["recordsSha256"] != whole["spec"]["provenance"]["recordsSha256"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["spec"]["provenance"].update(engine="sglang 0.5.24"), "spec.provenance.engine differs: sglang 0.5.23 in"),
        (lambda d: d["spec"]["provenance"].update(flagsSha256="b" * 64), "spec.provenance.flagsSha256 differs: none in"),
        (lambda d: d["spec"].update(acceptance="Natural"), "spec.acceptance differs: Synthetic in"),
        (lambda d: d["spec"].update(hardwareClass="h200-x8"), "spec.hardwareClass differs"),
        (lambda d: d["spec"]["model"].update(source="hf://org/other"), "spec.model.source differs"),
        (lambda d: d["spec"]["fit"].update(draftTokens=3), "spec.fit: draft_tokens differs: 1, 3"),
        (lambda d: d["spec"]["curves"][0].update(slots=16), "slots of mtp at 1000 tokens of context differ: 16, 24"),
    ],
)
def test_merge_refuses_unlike_runs(made: Path, tmp_path: Path, change: Any, words: str) -> None:
    result = run("merge", made, edited(made, change), "-o", tmp_path / "merged.yaml")
    assert result.exit_code == exits.FAILED
    assert words in " ".join(result.output.split())
    assert not (tmp_path / "merged.yaml").exists()


def test_merge_needs_two(made: Path, tmp_path: Path) -> None:
    assert run("merge", made, "-o", tmp_path / "merged.yaml").exit_code == exits.FAILED


def test_merge_refuses_more_than_a_profile_holds(made: Path, tmp_path: Path) -> None:
    """17 contexts; then 65 levels."""

    def contexts(first: int, number: int) -> Any:
        def change(document: Any) -> None:
            curves = document["spec"]["curves"]
            document["spec"]["curves"] = [curve | {"contextTokens": 1000 * (first + n)} for n in range(number) for curve in curves]
            del document["spec"]["fit"]

        return change

    def levels(start: int) -> Any:
        def change(document: Any) -> None:
            for curve in document["spec"]["curves"]:
                curve["points"] = [{"concurrency": level, "outputTokensPerSecond": str(level)} for level in range(start, 129, 2)]

        return change

    for one, other, words in (
        (contexts(1, 9), contexts(10, 8), "spec.curves: Tuple should have at most 32 items"),
        (levels(1), levels(2), "spec.curves[].points: Tuple should have at most 64 items"),
    ):
        result = run("merge", edited(made, one, "a.yaml"), edited(made, other, "b.yaml"), "-o", tmp_path / "merged.yaml")
        assert result.exit_code == exits.FAILED
        assert words in result.output
    assert not (tmp_path / "merged.yaml").exists()


@pytest.mark.parametrize(
    "times", [("2026-11-20T09:00:00Z", "2026-11-20T10:30:00+02:00"), ("2026-11-20T09:00:00.5Z", "2026-11-20T09:00:00Z")]
)
def test_merge_takes_the_latest_time_whatever_its_zone(made: Path, tmp_path: Path, times: tuple[str, str]) -> None:
    files = [edited(made, lambda d, at=at: d["spec"]["provenance"].update(measuredAt=at), f"{n}.yaml") for n, at in enumerate(times)]
    assert run("merge", *files, "-o", tmp_path / "merged.yaml").exit_code == 0
    assert yaml.safe_load((tmp_path / "merged.yaml").read_text())["spec"]["provenance"]["measuredAt"] == times[0]
