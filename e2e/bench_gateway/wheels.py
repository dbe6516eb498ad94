"""SGLang's routers from PyPI, each in an environment of its own in the user cache.

They are not dependencies of the project: they are installed by the bench, from requirement files with hashes, once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.bench_gateway.fleet import BenchError
from e2e.toolchain import cache

REQUIREMENTS = Path(__file__).parent / "requirements"
_INSTALL_SECONDS = 300


def environment(name: str) -> Path:
    """The `bin` folder of the environment of requirements/NAME.txt, made if it is not there. BenchError where that fails."""
    requirements = REQUIREMENTS / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    root = cache.cache_root() / "bench-gateway"
    root.mkdir(parents=True, exist_ok=True)
    home = root / f"{name}-{digest}"
    with cache.exclusive(root):
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            _install(home, requirements)
            (home / "complete").touch()
    return home / "bin"


def _install(home: Path, requirements: Path) -> None:
    uv = os.environ.get("UV") or shutil.which("uv")  # NB: `uv run` says where it is; it need not be on PATH
    python = home / "bin" / "python"
    if uv:
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(home)])
        _run([uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(requirements)])
    else:
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(requirements)])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{' '.join(command[:4])} took longer than {_INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command[:4])}: {done.stderr[-1500:]}")
