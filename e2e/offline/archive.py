"""Container images of one layer, written without docker: the control plane's programs under the names that kubeadm expects.

The same files give the same digest: no times, and root owns all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_CREATED = "1970-01-01T00:00:00Z"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is in an image: `files` by their path in it, empty `folders`, and all of `tree`. `user` is a numeric uid:gid."""

    files: Mapping[str, Path] = field(default_factory=dict)
    folders: Iterable[str] = ()
    tree: Path | None = None
    entrypoint: tuple[str, ...] = ()
    user: str = ""


class _Layer:
    """A gzip stream that knows the digest of what went into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._hash = hashlib.sha256()
        self._gzip = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0)

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        return self._gzip.write(content)

    def close(self) -> str:
        """End the stream; gives the digest of the plain layer."""
        self._gzip.close()
        return self._hash.hexdigest()


def write_image(path: Path, reference: str, content: Content) -> None:
    """Write an archive that `docker load`, `ctr images import` and `kind load image-archive` take."""
    layer_path = path.with_suffix(".layer")
    with layer_path.open("wb") as file:
        layer = _Layer(file)
        with tarfile.open(fileobj=layer, mode="w|", format=tarfile.GNU_FORMAT) as packed:  # type: ignore[call-overload]
            _fill(packed, content)
        plain_digest = layer.close()
    config = _configuration(content, plain_digest)
    name = hashlib.sha256(config).hexdigest()
    layer_name = f"{plain_digest}/layer.tar"
    manifest = [{"Config": f"{name}.json", "RepoTags": [reference], "Layers": [layer_name]}]
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as image:
        _add(image, layer_path, layer_name, 0o644)
        for blob_name, blob in ((f"{name}.json", config), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(blob_name)
            entry.size = len(blob)
            image.addfile(entry, io.BytesIO(blob))
    layer_path.unlink()


def _fill(packed: tarfile.TarFile, content: Content) -> None:
    if content.tree is not None:
        packed.add(content.tree, arcname=".", filter=_anonymous)
    made: set[str] = set()
    for folder in content.folders:
        _folders(packed, folder, made)
    for destination, source in content.files.items():
        target = destination.strip("/")
        _folders(packed, target.rpartition("/")[0], made)
        _add(packed, source.resolve(), target, 0o755)


def _folders(packed: tarfile.TarFile, path: str, made: set[str]) -> None:
    parts = [part for part in path.split("/") if part]
    for count in range(1, len(parts) + 1):
        name = "/".join(parts[:count])
        if name not in made:
            made.add(name)
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if name == "tmp" else 0o755
            packed.addfile(entry)


def _add(packed: tarfile.TarFile, source: Path, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = source.stat().st_size
    entry.mode = mode
    with source.open("rb") as file:
        packed.addfile(entry, file)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    return entry


def _configuration(content: Content, plain_digest: str) -> bytes:
    settings = {"Env": [_PATH], "Entrypoint": list(content.entrypoint), "User": content.user}
    document = {
        "architecture": "amd64",
        "os": "linux",
        "created": _CREATED,
        "config": {key: value for key, value in settings.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{plain_digest}"]},
        "history": [{"created": _CREATED, "created_by": "mtpilot e2e"}],
    }
    return json.dumps(document, sort_keys=True).encode()
