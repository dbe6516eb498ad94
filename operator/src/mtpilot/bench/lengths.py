"""The lengths of a recorded trace's requests, whatever its publisher's format."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .prompts import Length

# Azure 2023, Mooncake (as CSV or its own JSON lines).
_COLUMNS = (("ContextTokens", "GeneratedTokens"), ("input_length", "output_length"))
_LEAST_OUTPUT_TOKENS = 48  # of an answer that can hold its marker


def read_lengths(path: Path) -> tuple[Length, ...]:
    """All requests of a trace, in its order; an answer too short for its marker is asked longer.

    Raises:
        ValueError: no trace with lengths, or a row without one; the message names the line.
        OSError: it cannot be read.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        found = tuple(_lengths(path.name, file))
    if not found:
        raise ValueError(f"{path.name}: no requests in it")
    return found


def _lengths(name: str, lines: Iterable[str]) -> Iterator[Length]:
    rows = iter(lines)
    head = next(rows, "")
    numbered: Iterator[tuple[int, Mapping[str, Any]]]
    if head.lstrip().startswith("{"):
        numbered = ((number, json.loads(text)) for number, text in enumerate((head, *rows), 1) if text.strip())
    else:
        numbered = ((number, row) for number, row in enumerate(csv.DictReader((head, *rows)), 2))
    columns = None
    for number, row in numbered:
        columns = columns or next((pair for pair in _COLUMNS if pair[0] in row and pair[1] in row), None)
        if columns is None:
            raise ValueError(f"{name}: no lengths in it; known columns: {'; '.join(', '.join(pair) for pair in _COLUMNS)}")
        try:
            inputs, outputs = int(float(row[columns[0]])), int(float(row[columns[1]]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{name}:{number}: {error}") from error
        yield Length(input_tokens=max(1, inputs), output_tokens=max(_LEAST_OUTPUT_TOKENS, outputs))
