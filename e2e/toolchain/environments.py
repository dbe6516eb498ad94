"""Environments beside the project's own: what a check compares with, from requirement files with hashes, once in the user cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.toolchain import cache


class InstallError(RuntimeError):
    """It could not be made; the message carries the end of the installer's output."""


def find_uv() -> str | None:
    """uv's path: `uv run` says where it is, and it need not be on PATH; None: there is pip alone."""
    return os.environ.get("UV") or shutil.which("uv")


def locked_environment(requirements: Path, *, under: str, name: str, install_seconds: int, with_dependencies: bool = True) -> Path:
    """The `bin` folder of the environment that the file asks for, made if it is not there.

    Args:
        requirements: each package with its hashes. under, name: where it lies in the cache.
        install_seconds: that each step may take.
        with_dependencies: False: the file names all that is wanted, whatever a package's own list says.

    Raises:
        InstallError: a step failed or took too long.
    """
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    root = cache.cache_root() / under
    root.mkdir(parents=True, exist_ok=True)
    home = root / f"{name}-{digest}"
    with cache.exclusive(root):
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            what = ["--require-hashes", "-r", str(requirements), *([] if with_dependencies else ["--no-deps"])]
            _install(home, what, install_seconds)
            (home / "complete").touch()
    return home / "bin"


def _install(home: Path, what: list[str], seconds: int) -> None:
    uv = find_uv()
    python = home / "bin" / "python"
    if uv:
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], seconds)
        _run([uv, "pip", "install", "--quiet", "--python", str(python), *what], seconds)
    else:
        _run([sys.executable, "-m", "venv", str(home)], seconds)
        _run([str(python), "-m", "pip", "install", "--quiet", *what], seconds)


def _run(command: list[str], seconds: int) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise InstallError(f"{' '.join(command[:4])} took longer than {seconds} s") from None
    if done.returncode != 0:
        raise InstallError(f"{' '.join(command[:4])}: {done.stderr[-1500:]}")
