"""Write the profiles of `e2e/data/profiles`, those of `docs/examples` and the plots of `docs/profiles.md` from their points, by the
command that users have.

    python -m e2e.profiles

They are committed, so that the replay and the tests read them without scipy; a test holds them to what the command makes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "e2e" / "data"

_REPORT_122B = (
    "Public benchmark report on Qwen3.5-122B-A10B, 4x RTX PRO 6000, SGLang, NEXTN with one draft token. Measured: 121.5 and 108 tok/s "
    "at one request, 1635 with 24 mtp slots full, 2800 with 68 requests running in batch. The levels between, and the last ones, are "
    "power laws near both ends"
)
_REPORT_27B = (
    "Public benchmark report on Qwen3.6-27B, RTX PRO 6000, SGLang, NEXTN. Measured: mtp 70 tok/s at one request and 234 at its 4 slots, "
    "batch 26.7 at one. All other levels are projected, batch to {most} tok/s at its 16 slots"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One profile.

    file: what is written, below the repository. arguments: of `mtpilot profile fit`, without the output. plot: below the repository.
    """

    file: str
    arguments: tuple[str, ...]
    plot: str | None = None


def _points(
    file: str,
    points: str,
    *,
    model: str,
    hardware_class: str,
    acceptance: str,
    source: str,
    options: tuple[str, ...],
    plot: str | None = None,
) -> Recipe:
    return Recipe(
        file=file,
        plot=plot,
        arguments=(
            str(DATA / "points" / points), "--model", model, "--hardware-class", hardware_class, "--acceptance", acceptance,
            "--engine", "sglang", "--source", source, *options,
        ),
    )  # fmt: skip


def recipes() -> Iterator[Recipe]:
    """Every generated profile."""
    moe = ("--draft-tokens", "1", "--experts", "256", "--active-experts", "8", "--name", "qwen3.5-122b-rtx-pro-6000-x4")
    for file, namespace, plot in (
        ("e2e/data/profiles/qwen3.5-122b-rtx-pro-6000-x4.yaml", (), "docs/images/profile-slots.png"),
        ("docs/examples/qwen3.5-122b-rtx-pro-6000-x4-profile.yaml", ("--namespace", "team-a"), None),
    ):
        yield _points(
            file, "qwen3.5-122b.csv", model="hf://Qwen/Qwen3.5-122B-A10B", hardware_class="rtx-pro-6000-x4",
            acceptance="Synthetic", source=_REPORT_122B, options=(*moe, *namespace), plot=plot,
        )  # fmt: skip
    readings: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
        ("docs/examples/qwen3.6-27b-rtx-pro-6000-x1-profile.yaml", "320", "/Qwen3.6-27B", ("--namespace", "team-a")),
        ("e2e/data/profiles/qwen3.6-27b-320-rtx-pro-6000-x1.yaml", "320", "hf://Qwen/Qwen3.6-27B", ()),
        ("e2e/data/profiles/qwen3.6-27b-427-rtx-pro-6000-x1.yaml", "427", "hf://Qwen/Qwen3.6-27B", ()),
    )
    for file, most, model, more in readings:
        name = Path(file).stem.removesuffix("-profile")
        yield _points(
            file, f"qwen3.6-27b-{most}.csv", model=model, hardware_class="rtx-pro-6000-x1",
            acceptance="Natural", source=_REPORT_27B.format(most=most), options=("--draft-tokens", "3", "--name", name, *more),
        )  # fmt: skip
    for quantization in ("lukealonso_nvfp4", "awq"):
        name = f"qwen3.5-397b-{quantization.rpartition('_')[2]}-rtx-pro-6000-x4"
        yield Recipe(
            file=f"e2e/data/profiles/{name}.yaml",
            plot="docs/images/profile-contexts.png" if quantization == "awq" else None,
            arguments=(
                str(DATA / "mtp_curves.csv"), "--pair", f"vllm-q35-397b-{quantization}", "--model", "hf://Qwen/Qwen3.5-397B-A17B",
                "--hardware-class", "rtx-pro-6000-x4", "--experts", "512", "--active-experts", "10", "--name", name,
            ),
        )  # fmt: skip


def write(recipe: Recipe, root: Path, *, draw: bool = False) -> Path:
    """Make one profile below `root`, with its plot if wanted. Raises RuntimeError where the command fails."""
    from typer.testing import CliRunner

    from mtpilot.cli.main import app

    path = root / recipe.file
    path.parent.mkdir(parents=True, exist_ok=True)
    plot = root / recipe.plot if draw and recipe.plot else None
    if plot is not None:
        plot.parent.mkdir(parents=True, exist_ok=True)
    drawing = [] if plot is None else ["--plot", str(plot)]
    result = CliRunner().invoke(app, ["profile", "fit", *recipe.arguments, "-o", str(path), *drawing])
    if result.exit_code:
        raise RuntimeError(f"{recipe.file}: {result.output}")
    return path


if __name__ == "__main__":
    for one in recipes():
        print(write(one, ROOT, draw=True))
