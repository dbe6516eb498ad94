"""Profiles and measurements on disk."""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtpilot.api.throughput_profile import ThroughputProfileSpec

KIND = "ThroughputProfile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A profile's spec under its name. file: where it was read, for messages."""

    name: str
    spec: "ThroughputProfileSpec"
    namespace: str | None = None
    file: str = ""

    def with_namespace(self, namespace: str | None) -> "Named":
        return replace(self, namespace=namespace)


def read_rows(path: Path) -> list[Mapping[str, Any]]:
    """Rows of a CSV file with a header, or objects of a JSONL file (ending .jsonl or .ndjson).

    Raises:
        OSError, ValueError: it cannot be read, a line is no JSON object, or there is no row.
    """
    text = path.read_text(encoding="utf-8-sig")
    rows: list[Mapping[str, Any]] = []
    if path.suffix in (".jsonl", ".ndjson"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                rows.append(_json_object(line, number))
    else:
        rows.extend(csv.DictReader(text.splitlines()))
    if not rows:
        raise ValueError("no rows")
    return rows


def _json_object(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"line {number} is no JSON object")
    return found


def read_documents(path: Path) -> list[dict[str, Any]]:
    """The ThroughputProfile manifests of a YAML or JSON file.

    Raises:
        OSError, ValueError: it cannot be read, or has none.
    """
    import yaml

    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is no YAML: {error}") from error
    found = [document for document in documents if isinstance(document, dict) and document.get("kind") == KIND]
    if not found:
        raise ValueError(f"{path} has no {KIND}")
    return found


def read_profiles(path: Path) -> list[Named]:
    """The file's profiles, parsed.

    Raises:
        OSError, ValueError: it cannot be read, has none, or one has a wrong field.
    """
    return [parse(document, str(path)) for document in read_documents(path)]


def parse(document: Mapping[str, Any], file: str = "") -> Named:
    """A manifest as a spec.

    Raises:
        ValueError: a field is missing or wrong; the message has one line for each.
    """
    from mtpilot.api.throughput_profile import ThroughputProfileSpec

    metadata = document.get("metadata") or {}
    with named_fields():
        spec = ThroughputProfileSpec.model_validate(document.get("spec") or {})
    return Named(name=str(metadata.get("name", "")), namespace=metadata.get("namespace"), spec=spec, file=file)


def profile_text(named: Named) -> str:
    """The manifest, with what the curves conclude as its status: the operator writes the same."""
    import yaml

    from mtpilot.api.types import API_VERSION
    from mtpilot.curves.report import fit_words, status_of

    metadata = {"name": named.name} | ({"namespace": named.namespace} if named.namespace else {})
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": named.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": status_of(named.spec).model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"observed_generation", "conditions"}
        ),
    }
    head = f"# Made by `mtpilot profile`; points edited by hand need a new fit.\n# {fit_words(named.spec)}.\n"
    return head + yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


@contextmanager
def named_fields(path: str = "spec") -> Iterator[None]:
    """What the models refuse inside becomes a ValueError with one line for each field, which begins with its path."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        raise ValueError("\n".join(f"{path}{_path(found['loc'])}: {found['msg']}" for found in error.errors())) from error


def _path(location: tuple[int | str, ...]) -> str:
    from pydantic.alias_generators import to_camel

    return "".join(f"[{step}]" if isinstance(step, int) else f".{to_camel(step)}" for step in location)
