"""Each row's marker and required answer, and the look for other rows' markers in an answer.

A marker is drawn from a digest, not counted up: a model that copies a marker with an error does not make another row's by it. All markers
that a run has given out are known to the check, those of earlier batches too, so that a row that was answered from a stale KV cache is
found as well.
"""

import hashlib
import re
from collections.abc import Collection, Hashable
from dataclasses import dataclass

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_LENGTH = 10
# Whole markers only: one that the output limit cut in two is nobody's.
_MARKER = re.compile(rf"(?<![A-Za-z0-9])mt[{_ALPHABET}]{{{_LENGTH}}}(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one request must bring back: its marker, and six digits as the required answer."""

    marker: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What an answer holds: its own marker, others' in the order of the alphabet, and the required answer."""

    marker_ok: bool
    foreign_markers: tuple[str, ...]
    answer_ok: bool


def row(run_id: str, shape: Hashable, index: int) -> Row:
    """The row of a request of a batch of this shape; the same for the same three."""
    drawn = hashlib.sha256(f"{run_id}/{shape}/{index}".encode()).digest()
    letters = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in drawn[:_LENGTH])
    return Row(marker=f"mt{letters}", answer=f"{int.from_bytes(drawn[_LENGTH : _LENGTH + 8]) % 900_000 + 100_000}")


def instruction(of: Row) -> str:
    """The first lines of a prompt. Being different in each row they also keep a prefix cache from answering."""
    return (
        f"[[marker={of.marker}]] is the marker of this request and [[answer={of.answer}]] its reference number. "
        "Begin your reply with one line that holds both, written exactly so with their brackets, then do the task, and end with the marker."
    )


def check(text: str, of: Row, given_out: Collection[str]) -> Check:
    """Look through an answer. `given_out`: all markers of the run so far."""
    found = set(_MARKER.findall(text))
    foreign = tuple(sorted(marker for marker in found if marker != of.marker and marker in given_out))
    return Check(marker_ok=of.marker in found, foreign_markers=foreign, answer_ok=of.answer in text)
