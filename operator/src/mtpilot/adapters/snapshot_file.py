"""Snapshots as YAML files: what was decided can be decided again elsewhere, with the same result.

A file holds what a decision looks at and nothing else; no Secret's value is ever in a snapshot.
"""

from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from mtpilot.model.snapshot import Snapshot

_ADAPTER: TypeAdapter[Snapshot] = TypeAdapter(Snapshot)


def dump_snapshot(snapshot: Snapshot) -> str:
    """YAML text; `parse_snapshot` gives back an equal snapshot."""
    return yaml.safe_dump(_ADAPTER.dump_python(snapshot, mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


def parse_snapshot(text: str) -> Snapshot:
    """Read `dump_snapshot`'s text.

    Raises:
        ValueError: it is not YAML or not a snapshot; the message names the field.
    """
    try:
        return _ADAPTER.validate_python(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as error:
        raise ValueError(f"not a snapshot: {error}") from error


def load_snapshot(path: Path) -> Snapshot:
    """Read a file; OSError, or ValueError as `parse_snapshot`."""
    return parse_snapshot(path.read_text(encoding="utf-8"))
