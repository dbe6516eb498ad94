"""Root file systems from Debian packages, by debootstrap and the mirror that this machine's own apt uses."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from e2e.offline.commands import OfflineError, digest, kind_root, run
from e2e.toolchain import cache
from e2e.toolchain.progress import step

SUITE = "bookworm"  # its systemd (252) still boots on cgroup v1; the next release's refuses
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

NODE_PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod",
    "libseccomp2", "pigz", "e2fsprogs", "bash", "ca-certificates", "curl", "jq", "procps", "runc", "socat",
)  # fmt: skip
PYTHON_PACKAGES = ("python3", "python3-venv", "ca-certificates")


def mirror() -> str:
    """Give the URL of the first Debian mirror in apt's sources that is not one for security updates alone."""
    said = run(["apt-get", "indextargets", "--format", "$(REPO_URI)"]).split()
    found = [url for url in dict.fromkeys(said) if "security" not in url]
    if not found:
        raise OfflineError("apt has no source: nothing to take Debian packages from")
    return found[0]


def tree(name: str, packages: Sequence[str], console: Console) -> Path:
    """Give a folder with Debian's smallest system and `packages`; nobody may change what is in it."""
    root = kind_root()
    path = root / f"debian-{name}-{digest([SUITE, *packages])}"
    if path.exists():
        return path
    downloaded = root / "packages"
    downloaded.mkdir(exist_ok=True)
    with cache.scratch(root) as folder, step(console, f"Debian {SUITE} for {name} (first time only: 1 to 2 minutes)") as current:
        made = folder / "tree"
        command = ["debootstrap", "--variant=minbase", f"--cache-dir={downloaded}", f"--include={','.join(packages)}"]
        run([*command, SUITE, made, mirror()], step=current)
        for useless in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(made / useless, ignore_errors=True)
        made.replace(path)
    return path


def python_tree(console: Console) -> Path:
    """Give the system that the project's own images stand on: Python, and this machine's certificate authorities for its mirrors."""
    return tree("python", PYTHON_PACKAGES, console)


def certificates() -> bytes:
    """Give the certificate authorities of this machine, as PEM."""
    return _CERTIFICATES.read_bytes() if _CERTIFICATES.exists() else b""
