"""`mtpilot capacity`: files and options in, a table or one JSON object out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtpilot.cli import exits
from mtpilot.cli.main import app

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "tests" / "samples" / "models"
EXAMPLES = ROOT / "docs" / "examples"
QWEN_122B = ["-c", str(MODELS / "qwen3.5-122b-a10b.json")]
SERVICE = [*QWEN_122B, "-f", str(EXAMPLES / "qwen3.5-122b-rtx-pro-6000-x4.yaml")]
BY_HAND = ["-c", str(MODELS / "qwen3.5-27b.json"), "--gpu-memory", "96Gi", "--gpus", "1"]

CLASS = """
kind: HardwareClass
metadata: {name: h100x4}
spec: {gpu: {perReplica: 4, memory: 80Gi}, engine: {args: [--tp-size, "4", --mamba-ssm-dtype=bfloat16]}}
"""


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["capacity", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def refused(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["capacity", *arguments])
    return result.exit_code, result.output


def test_both_modes_side_by_side() -> None:
    text = run(*BY_HAND)
    for row in ("weights", "draft weights", "KV cell", "KV tokens", "state slots", "effective slots", "what binds", "first remedy"):
        assert row in text
    assert "mtp has 6 of batch's 16 slots: state slots bind" in text
    assert text.rstrip().endswith("first remedy for mtp: --mamba-ssm-dtype bfloat16 (13 slots)")


def test_json_has_the_numbers_of_the_table() -> None:
    found = document(*BY_HAND)
    mtp, batch = found["modes"]["mtp"], found["modes"]["batch"]
    assert (mtp["effectiveSlots"], batch["effectiveSlots"]) == (6, 16)
    assert (mtp["requestedSlots"], batch["requestedSlots"]) == (48, None)
    assert mtp["binds"] == batch["binds"] == "StateSlots"
    assert mtp["stateSlots"]["perRequest"] == 5
    assert batch["draftWeightsBytes"] == 0 < mtp["draftWeightsBytes"]
    assert mtp["remedy"] == {"text": "--mamba-ssm-dtype bfloat16", "slots": 13}
    assert found["conclusion"].startswith("mtp has 6 of batch's 16 slots")
    assert any(note.startswith("weights are counted") for note in found["notes"])


def test_a_service_is_read_as_the_operator_renders_it() -> None:
    found = document(*SERVICE)
    mtp, batch = found["modes"]["mtp"], found["modes"]["batch"]
    assert (mtp["requestedSlots"], batch["requestedSlots"]) == (48, 128)
    assert (mtp["memFractionStatic"], batch["memFractionStatic"]) == (0.92, 0.85)
    assert mtp["requestTokens"] == 2000 + 2 * 2  # two draft tokens
    assert found["gpus"] == 4


def test_options_go_before_the_files() -> None:
    found = document(
        *SERVICE, "--max-running-requests", "7", "--mem-fraction-static", "0.9", "--draft-tokens", "4", "--output-tokens", "500"
    )
    for mode in found["modes"].values():
        assert (mode["requestedSlots"], mode["memFractionStatic"]) == (7, 0.9)
    assert found["modes"]["mtp"]["requestTokens"] == 1500 + 8


def test_a_file_that_is_not_there_is_named_without_an_error_number(tmp_path: Path) -> None:
    code, text = refused("-c", str(tmp_path / "config.json"), "--gpu-memory", "80Gi", "--gpus", "1")
    assert code == exits.USAGE
    assert "config.json: No such file or directory" in text
    assert "Errno" not in text


def test_a_hardware_class_alone(tmp_path: Path) -> None:
    path = tmp_path / "class.yaml"
    path.write_text(CLASS)
    found = document("-c", str(MODELS / "qwen3-next-80b-a3b.json"), "--hardware-class", str(path))
    assert found["gpus"] == 4
    assert found["modes"]["batch"]["stateSlots"]["slotBytes"] < 12 << 20  # a quarter of a bfloat16 state


def test_measured_weights_need_no_note() -> None:
    found = document(*BY_HAND, "--weights", "50Gi", "--draft-weights", "6Gi")
    assert found["modes"]["mtp"]["weightsBytes"] == 50 << 30
    assert not any("counted" in note for note in found["notes"])


def test_gpus_that_are_not_used_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "class.yaml"
    path.write_text(CLASS.replace('"4"', '"2"'))
    found = document("-c", str(MODELS / "qwen3-next-80b-a3b.json"), "--hardware-class", str(path), "--gpu-memory", "141Gi")
    assert found["notes"][0] == "--tp-size 2 uses 2 of the replica's 4 GPUs"


def test_a_separate_draft() -> None:
    arguments = ["-c", str(MODELS / "llama-3.1-8b.json"), "--gpu-memory", "80Gi", "--gpus", "1"]
    assert refused(*arguments) == (exits.USAGE, refused(*arguments)[1])
    assert "(--draft-layers and --draft-weights)" in refused(*arguments)[1]
    found = document(*arguments, "--draft-layers", "1", "--draft-weights", "1Gi")
    assert found["modes"]["mtp"]["draftWeightsBytes"] == 1 << 30


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-c", "/nonexistent", "--gpu-memory", "96Gi", "--gpus", "4"], exits.USAGE, "/nonexistent"),
        (["-c", __file__, "--gpu-memory", "96Gi", "--gpus", "4"], exits.USAGE, "is not JSON"),
        (QWEN_122B, exits.USAGE, "give --gpu-memory and --gpus"),
        ([*QWEN_122B, "--gpu-memory", "96GB", "--gpus", "4"], exits.USAGE, "not a quantity"),
        ([*QWEN_122B, "--gpu-memory", "96", "--gpus", "4"], exits.USAGE, "a size has a unit, like 96Gi (--gpu-memory)"),
        ([*QWEN_122B, "--gpu-memory", "0", "--gpus", "1"], exits.USAGE, "a size has a unit, like 96Gi (--gpu-memory)"),
        ([*QWEN_122B, "--gpu-memory", "96Gi", "--gpus", "3"], exits.USAGE, "--tp-size: 3 does not divide"),
        ([*QWEN_122B, "--gpu-memory", "96Gi", "--gpus", "1"], exits.FAILED, "leave nothing for the KV cache"),
        ([*QWEN_122B, "--hardware-class", str(MODELS / "README.md")], exits.USAGE, "is not YAML"),
        ([*QWEN_122B, "-f", "FILE"], exits.USAGE, "0 objects of kind HardwareClass named h100x8, not one; give its file"),
    ],
)
def test_what_cannot_be_estimated(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    path = tmp_path / "service.yaml"
    modes = "modes: {mtp: {maxRunningRequests: 48}, batch: {maxRunningRequests: 48}}"
    path.write_text(f"kind: InferenceService\nspec: {{model: {{source: 'hf://a/b'}}, hardwareClass: h100x8, {modes}}}\n")
    found, output = refused(*[str(path) if word == "FILE" else word for word in arguments])
    assert found == code
    assert words in output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CLASS.replace("perReplica: 4", "perReplica: four"), "class.yaml: spec.gpu.perReplica: Input should be a valid integer"),
        (CLASS.replace("80Gi", "80GB"), "class.yaml: spec.gpu.memory: String should match pattern"),
        (CLASS.replace("80Gi", "'80'"), "spec.gpu.memory: 80 bytes are not above the 2.3 GiB that the runtime takes"),
    ],
)
def test_a_wrong_field_of_a_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "class.yaml"
    path.write_text(text)
    code, output = refused("-c", str(MODELS / "qwen3-next-80b-a3b.json"), "--hardware-class", str(path))
    assert code == exits.USAGE
    assert words in output
    service = tmp_path / "service.yaml"
    service.write_text("kind: InferenceService\nspec: {model: {}, hardwareClass: h100x4}\n")
    assert f"{service}: spec.model.source: Field required" in refused(*QWEN_122B, "-f", str(service))[1]


def test_a_config_that_is_no_object(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[]")
    assert refused("-c", str(path), "--gpu-memory", "96Gi", "--gpus", "1") == (
        exits.USAGE,
        f"mtpilot: {path} is no config.json: it must be an object\n",
    )
