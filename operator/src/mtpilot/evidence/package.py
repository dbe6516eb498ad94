"""An evidence package as files: what was measured, where, what follows from it, how to read it, and a digest of each.

Pure: names to bytes, and back. The same records and environment make the same bytes on every machine.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .environment import Environment
from .method import method_text
from .records import Record, line, parse
from .sums import SUMS, sha256_hex, sums_text
from .tables import tables_bytes

RECORDS = "records.jsonl"
ENVIRONMENT = "environment.json"
TABLES = "tables.json"
METHOD = "method.md"

Files = Mapping[str, bytes]
"""Name, with `/` between folders, to content."""


class InvalidPackage(ValueError):  # noqa: N818 - the words of the message
    """A package that cannot be read: a file is missing, or a line is none of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that was read."""

    environment: Environment
    records: tuple[Record, ...]
    records_sha256: str


def package_files(environment: Environment, records: Sequence[Record], plots: Files | None = None) -> dict[str, bytes]:
    """All files of a package, SHA256SUMS among them.

    records: the requests of each batch, then the batch, batches rising. plots: drawings to take in, by their names.
    """
    lines = "".join(f"{line(record)}\n" for record in records).encode()
    about = environment_bytes(environment)
    files = {
        RECORDS: lines,
        ENVIRONMENT: about,
        TABLES: tables_bytes(records, sha256_hex(lines), sha256_hex(about)),
        METHOD: method_text(environment, records).encode(),
        **(plots or {}),
    }
    return files | {SUMS: sums_text(files).encode()}


def read_package(files: Files) -> Package:
    """The records and the environment, unchecked (`verify.py` checks them).

    Raises:
        InvalidPackage: one of both is missing or is not what it should be; the message names the file and the line.
    """
    missing = [name for name in (RECORDS, ENVIRONMENT) if name not in files]
    if missing:
        raise InvalidPackage(f"{' and '.join(missing)} is missing: this is no evidence package")
    return Package(
        environment=environment_of(files[ENVIRONMENT]), records=records_of(files[RECORDS]), records_sha256=sha256_hex(files[RECORDS])
    )


def environment_bytes(environment: Environment) -> bytes:
    """The content of environment.json."""
    document = _finite(environment.document())
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def environment_of(content: bytes) -> Environment:
    """Raises InvalidPackage."""
    try:
        document = json.loads(content.decode())
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object")
        return Environment.from_document(document)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidPackage(f"{ENVIRONMENT}: {error}") from error


def records_of(content: bytes) -> tuple[Record, ...]:
    """Raises InvalidPackage."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InvalidPackage(f"{RECORDS}: {error}") from error
    if lines.pop() != "":
        raise InvalidPackage(f"{RECORDS}: the last line has no end, so it may have been cut")
    found = []
    for number, text in enumerate(lines, 1):
        try:
            found.append(parse(text))
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidPackage(f"{RECORDS}: line {number}: {error}") from error
    return tuple(found)


def _finite(value: Any) -> Any:
    """JSON has no infinity; an engine's own report may. It is kept as a word."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
