"""The environment that holds the sglang wheel: made once in the user cache, from a requirement file with hashes.

Only what the parser imports is installed: 265 MB in place of the gigabytes of an engine.
"""

from __future__ import annotations

from pathlib import Path

from e2e.toolchain.environments import locked_environment

REQUIREMENTS = Path(__file__).parent / "requirements.txt"
_INSTALL_SECONDS = 600


def python() -> Path:
    """The interpreter that can import sglang, installed if it is not there yet. InstallError where that fails."""
    # sglang's own list of dependencies is a whole engine.
    folder = locked_environment(
        REQUIREMENTS, under="contract-sglang", name="sglang", install_seconds=_INSTALL_SECONDS, with_dependencies=False
    )
    return folder / "python"


def megabytes(interpreter: Path) -> int:
    """Disk that the environment takes, in 10^6 bytes."""
    files = (path for path in interpreter.parents[1].rglob("*") if path.is_file() and not path.is_symlink())
    return round(sum(path.stat().st_size for path in files) / 1e6)
