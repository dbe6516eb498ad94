"""The user cache: where installed tools live, one lock for all writers, and installs that appear whole or not at all.

Set-up may be interrupted at any time and two runs may start at once (`make demo` beside `make test`), so nothing is ever written in place.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """Give the cache folder: `$MTPILOT_CACHE`, else `mtpilot` in the XDG cache; it is created."""
    chosen = os.environ.get("MTPILOT_CACHE")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mtpilot"
    root.mkdir(parents=True, exist_ok=True)
    return root.resolve()


def toolchain_root() -> Path:
    """Give the folder of installed tools; it is created."""
    root = cache_root() / "toolchain"
    root.mkdir(exist_ok=True)
    return root


@contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Hold the lock of `root`; a second process waits here and then finds the tools already installed."""
    with (root / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """Give a temporary folder on the cache's own file system, so that a rename out of it is atomic; it is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=".tmp-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root: Path) -> None:
    """Remove what interrupted runs left behind; call with the lock held."""
    for leftover in root.glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)
