"""The environment that holds the sglang wheel: made once in the user cache, from a requirement file with hashes.

Only what the parser imports is installed: 265 MB in place of the gigabytes of an engine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.toolchain import cache

REQUIREMENTS = Path(__file__).parent / "requirements.txt"
_INSTALL_SECONDS = 600


class InstallError(RuntimeError):
    """The environment could not be made; the message carries the end of the installer's output."""


def python() -> Path:
    """The interpreter that can import sglang, installed if it is not there yet. InstallError where that fails."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    root = cache.cache_root() / "contract-sglang"
    root.mkdir(parents=True, exist_ok=True)
    home = root / f"sglang-{digest}"
    with cache.exclusive(root):
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            _install(home)
            (home / "complete").touch()
    return home / "bin" / "python"


def megabytes(interpreter: Path) -> int:
    """Disk that the environment takes, in 10^6 bytes."""
    files = (path for path in interpreter.parents[1].rglob("*") if path.is_file() and not path.is_symlink())
    return round(sum(path.stat().st_size for path in files) / 1e6)


def _install(home: Path) -> None:
    uv = os.environ.get("UV") or shutil.which("uv")  # NB: `uv run` says where it is; it need not be on PATH
    interpreter = home / "bin" / "python"
    # --no-deps: the file names all that is wanted; sglang's own list of dependencies is a whole engine.
    what = ["--quiet", "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS)]
    if uv:
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(home)])
        _run([uv, "pip", "install", "--python", str(interpreter), *what])
    else:
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(interpreter), "-m", "pip", "install", *what])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise InstallError(f"{' '.join(command[:4])} took longer than {_INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        raise InstallError(f"{' '.join(command[:4])}: {done.stderr[-1500:]}")
