"""SGLang's routers from PyPI, each in an environment of its own in the user cache.

They are not dependencies of the project: they are installed by the bench, from requirement files with hashes, once.
"""

from __future__ import annotations

from pathlib import Path

from e2e.bench_gateway.fleet import BenchError
from e2e.toolchain.environments import InstallError, locked_environment

REQUIREMENTS = Path(__file__).parent / "requirements"
_INSTALL_SECONDS = 300


def environment(name: str) -> Path:
    """The `bin` folder of the environment of requirements/NAME.txt, made if it is not there. BenchError where that fails."""
    try:
        return locked_environment(REQUIREMENTS / f"{name}.txt", under="bench-gateway", name=name, install_seconds=_INSTALL_SECONDS)
    except InstallError as error:
        raise BenchError(str(error)) from error
