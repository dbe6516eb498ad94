"""Evidence packages on disk."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .environment import Environment
from .package import RECORDS, InvalidPackage, Package, package_files, read_package
from .records import BatchRecord, Record

_LARGEST_BYTES = 4 * 1024**3
_MOST_FILES = 1000


def write_package(directory: Path, environment: Environment, records: Sequence[Record], *, plots: bool = True) -> dict[str, bytes]:
    """Write a package into a new or empty directory, complete or not at all; the files as written.

    plots: False, or True where matplotlib (the extra `analysis`) is there: without it a package has no plots.

    Raises:
        FileExistsError: the directory has something in it.
        OSError: it cannot be written.
    """
    drawings = _plots(records) if plots else {}
    files = package_files(environment, records, drawings)
    directory.parent.mkdir(parents=True, exist_ok=True)
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: a package is written once")
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as folder:
        built = Path(folder) / directory.name
        for name, content in files.items():
            path = built / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if directory.exists():
            directory.rmdir()
        built.rename(directory)
    return files


def read_files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, by its name with `/` between folders.

    Raises:
        OSError: it cannot be read, or is no directory.
        InvalidPackage: a link or another thing that is no plain file is in it, or it is larger than any package.
    """
    files: dict[str, bytes] = {}
    size = 0
    for root, folders, names in os.walk(directory, onerror=_raise):
        for name in (*folders, *names):
            path = Path(root) / name
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise InvalidPackage(f"{path.relative_to(directory).as_posix()} is no plain file")
        for name in names:
            path = Path(root) / name
            size += path.stat().st_size
            if size > _LARGEST_BYTES or len(files) >= _MOST_FILES:
                raise InvalidPackage(f"more than {_LARGEST_BYTES >> 30} GiB or {_MOST_FILES} files: this is no evidence package")
            files[path.relative_to(directory).as_posix()] = path.read_bytes()
    return files


def open_package(directory: Path) -> Package:
    """The package in a directory, unchecked.

    Raises:
        OSError, InvalidPackage: see `read_files` and `read_package`.
    """
    return read_package(read_files(directory))


def is_package(path: Path) -> bool:
    """Whether it is a directory with records in it."""
    return (path / RECORDS).is_file()


def _plots(records: Sequence[Record]) -> dict[str, bytes]:
    try:
        from .plots import plots_of
    except ImportError:
        return {}
    return plots_of([record for record in records if isinstance(record, BatchRecord)])


def _raise(error: OSError) -> None:
    raise error
