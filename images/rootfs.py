"""Copy an environment, its interpreter and what both need of the base image into a root file system of their own.

    python3 rootfs.py /opt/mtpilot /rootfs

Runs while the image is built, with the standard library only, on any base with glibc: Debian's Python or one in /usr/local.
What is not named here is not in the image: no shell, no package manager, no installer. Scanners read dpkg's status, so it keeps
the packages of which a file was taken, each with its licence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# Folders of the standard library that nothing of a server imports; test suites are found by name in any depth.
_UNUSED = {
    "ensurepip",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "pydoc_data",
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "__pycache__",
}
_SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/certs",
    "/usr/lib/ssl/cert.pem",
    "/usr/lib/ssl/certs",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)
_USER = "service:x:65532:65532:service:/tmp:/usr/sbin/nologin\n"


class Rootfs:
    """A root file system under `root`; `taken` are paths of the base image without links among their parents."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.taken: set[Path] = set()

    def take(self, path: Path) -> None:
        """Copy a file, a link with its target, or a folder with all that is in it; links among its parents stay links."""
        for parent in reversed(path.parents):
            if parent.is_symlink():
                self._link(parent)
        real = path.parent.resolve() / path.name
        if real in self.taken or not os.path.lexists(real):
            return
        self.taken.add(real)
        if real.is_symlink():
            self._link(real)
            self.take(Path(os.path.normpath(real.parent / real.readlink())))
        elif real.is_dir():
            self._inside(real).mkdir(parents=True, exist_ok=True)
            for entry in real.iterdir():
                self.take(entry)
        else:
            shutil.copy2(real, self._inside(real))

    def write(self, path: str, text: str) -> None:
        """Write a file of the image's own."""
        copy = self.root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, "utf-8")

    def _link(self, path: Path) -> None:
        copy = self._inside(path.parent.resolve() / path.name)
        if not os.path.lexists(copy):
            copy.symlink_to(path.readlink())

    def _inside(self, path: Path) -> Path:
        copy = self.root / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        return copy


def standard_library() -> Iterator[Path]:
    """Every file of the interpreter's library that is kept."""
    top = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix}))
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name not in _UNUSED and not name.startswith("config-")]
        yield from (Path(folder, name) for name in files)


def libraries(objects: list[Path]) -> set[Path]:
    """Shared libraries, the loader among them, that these programs and libraries are linked to.

    Raises:
        SystemExit: one is not found.
    """
    found: set[Path] = set()
    for path in objects:
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607
        if missing := re.findall(r"(\S+) => not found", said):
            raise SystemExit(f"{path} needs {', '.join(missing)}, which the base image does not have")
        found |= {Path(name) for name in re.findall(r"(/\S+) \(0x", said)}
    return found


def packages(taken: set[Path], info: Path) -> set[str]:
    """Debian packages that own one of the files; a path may be known under /lib as well as /usr/lib."""
    wanted = {str(path) for path in taken if not path.is_dir()}
    wanted |= {path.removeprefix("/usr") for path in wanted if path.startswith("/usr/lib")} | {
        f"/usr{path}" for path in wanted if path.startswith("/lib")
    }
    return {listing.stem.partition(":")[0] for listing in info.glob("*.list") if wanted & set(listing.read_text("utf-8").splitlines())}


def main() -> None:
    environment, rootfs = Path(sys.argv[1]), Rootfs(Path(sys.argv[2]))
    rootfs.root.mkdir(parents=True)
    interpreter = environment / "bin" / "python3"
    own = [path for path in environment.rglob("*") if not path.is_dir()]
    standard = list(standard_library())
    for path in [*standard, *own, interpreter, *map(Path, _SETTINGS)]:
        rootfs.take(path)
    objects = [path for path in [*standard, *own] if re.search(r"\.so(\.|$)", path.name)]
    needed = libraries([interpreter.resolve(), *objects])
    for path in needed:
        if environment not in path.parents:
            rootfs.take(path)
    status = Path("/var/lib/dpkg/status")
    if status.exists():
        names = packages(rootfs.taken, status.parent / "info")
        stanzas = status.read_text("utf-8").strip().split("\n\n")
        kept = [stanza for stanza in stanzas if re.match(r"Package: (\S+)", stanza)[1] in names]  # type: ignore[index]
        rootfs.write(str(status), "\n\n".join(kept) + "\n")
        for name in names:
            rootfs.take(Path("/usr/share/doc", name, "copyright"))
    rootfs.write("/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n" + _USER)
    rootfs.write("/etc/group", "root:x:0:\nservice:x:65532:\n")
    (rootfs.root / "tmp").mkdir()
    (rootfs.root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main()
