"""The API samples of `tests/samples/`, read into plain documents.

A comment `# expect: …` at the head of a rejected document is the part of the message that a test looks for; YAML drops comments,
so documents are split before they are parsed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent / "samples"
KIND_FOLDERS = {"InferenceService": "inferenceservice", "HardwareClass": "hardwareclass", "ThroughputProfile": "throughputprofile"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_EXPECT = "# expect: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One document. `name` is its file's name without the ending, `index` its place in the file."""

    kind: str
    name: str
    index: int
    document: dict[str, Any]
    expect: str = ""

    def __str__(self) -> str:
        return f"{KIND_FOLDERS[self.kind]}/{self.name}[{self.index}]"


@cache
def samples(verdict: str) -> list[Sample]:
    """All samples below `accept` or `reject`, in a fixed order. Read once: copy a document before changing it."""
    return [
        sample for kind in KIND_FOLDERS for path in sorted((ROOT / KIND_FOLDERS[kind] / verdict).glob("*.yaml")) for sample in _read(path)
    ]


def full_documents(kind: str) -> list[dict[str, Any]]:
    """The documents that together set every field of a kind; the caller's own."""
    return [sample.document for sample in _read(ROOT / KIND_FOLDERS[kind] / "accept" / "full.yaml")]


def _read(path: Path) -> Iterator[Sample]:
    for index, text in enumerate(path.read_text(encoding="utf-8").split("---\n")):
        document = yaml.load(text, Loader=_LOADER)
        expect = text.splitlines()[0].removeprefix(_EXPECT) if text.startswith(_EXPECT) else ""
        yield Sample(kind=document["kind"], name=path.stem, index=index, document=document, expect=expect)
