"""Other programs, run to their end: their output for whoever asks, its last lines in the error."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from e2e.toolchain import cache
from e2e.toolchain.progress import Step

_TAIL_LINES = 30


class OfflineError(RuntimeError):
    """Something could not be made; the message carries the end of the failing program's output."""


def kind_root() -> Path:
    """Give the folder of what is made for kind; it is created."""
    root = cache.cache_root() / "kind"
    root.mkdir(exist_ok=True)
    return root


def digest(parts: Iterable[str | bytes | Path]) -> str:
    """Give 12 hex digits for texts, bytes and the content of files; a folder counts with its files' names."""
    made = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path) and part.is_dir():
            for file in sorted(path for path in part.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
                made.update(str(file.relative_to(part)).encode() + b"\0" + file.read_bytes() + b"\0")
            continue
        content = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        made.update(content + b"\0")
    return made.hexdigest()[:12]


def run(
    command: Iterable[str | Path],
    *,
    step: Step | None = None,
    text: str | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program with `text` on its standard input and give its output; each line of it is a note of `step`.

    Raises OfflineError for an exit status other than 0.
    """
    arguments = [str(part) for part in command]
    lines: list[str] = []
    with subprocess.Popen(
        arguments,
        cwd=folder,
        env=None if environment is None else dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None  # noqa: S101  PIPE was asked for
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(text or "")
            process.stdin.close()
            for line in process.stdout:
                lines.append(line)
                if step is not None:
                    step.note(line.strip()[-70:])
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise OfflineError(f"{' '.join(arguments[:4])} … ended with {process.returncode}:\n" + "".join(lines[-_TAIL_LINES:]))
    return "".join(lines)


def pipe(source: Iterable[str | Path], sink: Iterable[str | Path], *, output: IO[bytes] | None = None) -> None:
    """Run two programs, the first one's output into the second's input; OfflineError when either fails."""
    first, second = [str(part) for part in source], [str(part) for part in sink]
    with (
        subprocess.Popen(first, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as writer,
        subprocess.Popen(second, stdin=writer.stdout, stdout=output or subprocess.DEVNULL, stderr=subprocess.PIPE) as reader,
    ):
        assert writer.stdout is not None  # noqa: S101  PIPE was asked for
        writer.stdout.close()
        _, errors = reader.communicate()
        writer.wait()
    if writer.returncode or reader.returncode:
        raise OfflineError(f"{first[0]} | {second[0]} ended with {writer.returncode}, {reader.returncode}:\n{errors.decode()[-2000:]}")
