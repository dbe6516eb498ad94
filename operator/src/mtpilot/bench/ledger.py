"""The records of a run while it lasts, on disk batch by batch, so that a run that is stopped goes on where it was.

They stand in a folder beside the package, `OUT.part`; the package itself appears when the run is complete.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtpilot.evidence.environment import Environment
from mtpilot.evidence.files import is_package, open_package, write_package
from mtpilot.evidence.package import ENVIRONMENT, RECORDS, environment_bytes, environment_of
from mtpilot.evidence.records import BatchRecord, Record, line, parse


class Ledger:
    """The records of the run that is to become the package `out`."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._part = out.with_name(f"{out.name}.part")

    @property
    def is_begun(self) -> bool:
        """Whether there is a run to go on with."""
        return (self._part / ENVIRONMENT).is_file() or is_package(self._out)

    @property
    def is_free(self) -> bool:
        """Whether nothing is in the way of a new run."""
        return not self._part.exists() and not (self._out.exists() and any(self._out.iterdir()))

    def read(self) -> tuple[Environment, list[Record]]:
        """What there is of the run, whole batches only.

        Raises:
            OSError, ValueError: it cannot be read.
        """
        if not (self._part / ENVIRONMENT).is_file():
            package = open_package(self._out)
            return package.environment, list(package.records)
        environment = environment_of((self._part / ENVIRONMENT).read_bytes())
        records: list[Record] = []
        path = self._part / RECORDS
        for text in path.read_text(encoding="ascii").splitlines() if path.is_file() else ():
            try:
                records.append(parse(text))
            except ValueError:  # the line that was being written when it was stopped
                break
        last = max((at for at, record in enumerate(records) if isinstance(record, BatchRecord)), default=-1)
        return environment, records[: last + 1]

    def files(self) -> dict[str, bytes]:
        """What there is of the run, as files; `restore` takes them."""
        folder = self._part if (self._part / ENVIRONMENT).is_file() else self._out
        return {name: (folder / name).read_bytes() for name in (ENVIRONMENT, RECORDS) if (folder / name).is_file()}

    def restore(self, files: Mapping[str, bytes]) -> None:
        """Put a run there to go on with. Raises OSError."""
        self._part.mkdir(parents=True, exist_ok=True)
        for name in (RECORDS, ENVIRONMENT):
            if name in files:
                (self._part / name).write_bytes(files[name])

    def begin(self, environment: Environment, records: Sequence[Record] = ()) -> None:
        """Make the folder, with what there is."""
        self._part.mkdir(parents=True, exist_ok=True)
        self.note(environment)
        (self._part / RECORDS).write_text("".join(f"{line(record)}\n" for record in records), encoding="ascii")

    def note(self, environment: Environment) -> None:
        """Write the environment anew."""
        path = self._part / ENVIRONMENT
        written = path.with_suffix(".new")
        written.write_bytes(environment_bytes(environment))
        written.replace(path)

    def append(self, records: Sequence[Record]) -> None:
        """One batch; on disk when it returns."""
        with (self._part / RECORDS).open("a", encoding="ascii") as file:
            file.write("".join(f"{line(record)}\n" for record in records))
            file.flush()
            os.fsync(file.fileno())

    def finish(self, environment: Environment, records: Sequence[Record], *, plots: bool) -> None:
        """Write the package, in the place of the one that the run went on from, and remove the folder."""
        before = self._out.with_name(f"{self._out.name}.before")
        if is_package(self._out):
            self._out.replace(before)
        write_package(self._out, environment, records, plots=plots)
        shutil.rmtree(self._part)
        if before.exists():
            shutil.rmtree(before)
