"""Docker: the one that answers, or one of our own on the cache folder, with its pid in a file so that any run can find and end it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from e2e.clusters.local.launch import start_time
from e2e.clusters.local.process import read_pid_file
from e2e.offline import oci_runtime
from e2e.offline.commands import OfflineError, kind_root, pipe, run
from e2e.toolchain.progress import step

_START_SECONDS = 60.0
_STOP_SECONDS = 40.0
PACKAGES = {
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
    "nft": "nftables",
    "iptables": "iptables",
    "zstd": "zstd",
    "ip": "iproute2",
}


def answers() -> bool:
    """Whether a docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0


def install_packages(console: Console) -> None:
    """Install what the machine lacks of PACKAGES, by apt; OfflineError where that cannot be done."""
    wanted = {command: package for command, package in PACKAGES.items() if command != "dockerd" or not answers()}
    missing = sorted(package for command, package in wanted.items() if shutil.which(command) is None)
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise OfflineError(f"install {', '.join(missing)} first (as root on Debian this is done here)")
    with step(console, f"apt: {', '.join(missing)}") as current:
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update", "-q"], step=current, environment=quiet)
        run(["apt-get", "install", "-qy", "--no-install-recommends", *missing], step=current, environment=quiet)


def start(console: Console) -> None:
    """Start a daemon of our own unless one answers; OfflineError with the end of its log when it does not come up."""
    if answers():
        return
    root = kind_root()
    log = root / "dockerd.log"
    command = ["dockerd", "--storage-driver", "overlay2", "--data-root", str(root / "docker"), *_runtime(root)]
    with step(console, "dockerd"), log.open("wb") as output:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        _pid_file().write_text(f"{daemon.pid} {start_time(daemon.pid)}\n")
        deadline = time.monotonic() + _START_SECONDS
        while not answers():
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise OfflineError(f"dockerd does not come up, see {log}:\n{log.read_text()[-2000:]}")
            time.sleep(0.3)


def is_ours() -> bool:
    """Whether the daemon that `start` started runs."""
    return read_pid_file(_pid_file()) is not None


def stop() -> None:
    """End the daemon that `start` started, if it still runs; what it has loaded stays in the cache."""
    pid = read_pid_file(_pid_file())
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while read_pid_file(_pid_file()) is not None:
        if time.monotonic() > deadline:
            raise OfflineError(f"dockerd {pid} does not stop within {_STOP_SECONDS:.0f} s")
        time.sleep(0.2)
    _pid_file().unlink(missing_ok=True)


def _pid_file() -> Path:
    return kind_root() / "dockerd.pid"


def _runtime(root: Path) -> list[str]:
    """Options for a runtime that asks for no more than this machine has; none where it has all."""
    if not oci_runtime.lacking(Path("/proc/self/status").read_text()):
        return []
    script = root / "oci-runtime"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{oci_runtime.__file__}" "$@"\n')
    script.chmod(0o755)
    return ["--add-runtime", f"mtpilot={script}", "--default-runtime", "mtpilot"]


def docker(*arguments: str | Path, text: str | None = None) -> str:
    """Run `docker` and give its output; OfflineError when it fails."""
    return run(["docker", *arguments], text=text)


def has_image(reference: str) -> bool:
    """Whether the daemon has an image."""
    return subprocess.run(["docker", "image", "inspect", reference], capture_output=True, check=False).returncode == 0


def import_tree(tree: Path, reference: str, changes: Iterable[str] = ()) -> None:
    """Make an image of one layer out of a folder; `changes` are lines of a Dockerfile."""
    options = [part for change in changes for part in ("--change", change)]
    pipe(["tar", "-C", tree, "--one-file-system", "-c", "."], ["docker", "import", *options, "-", reference])


def load_archive(archive: Path) -> None:
    """Load an image that `save_archive` has written."""
    pipe(["zstd", "-dcq", archive], ["docker", "load", "-q"])


def save_archive(reference: str, archive: Path) -> None:
    """Write an image to a file that appears whole or not at all."""
    new = archive.with_suffix(".new")
    with new.open("wb") as output:
        pipe(["docker", "save", reference], ["zstd", "-q", "-3", "-T0"], output=output)
    new.replace(archive)
