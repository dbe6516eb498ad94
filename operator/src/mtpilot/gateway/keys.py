"""API keys of the clients: read from a mounted Secret, given to HAProxy as hashes only."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from mtpilot.render.haproxy_options import KEYS_LOADED, KEYS_MAP_FILE

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class FileApiKeys:
    """A folder with one file for each client: its name, and in it the key. Hidden files are the mount's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hashes(self) -> dict[str, str] | None:
        """SHA-256 of each key, without the white space around it → its client; None where the folder cannot be read."""
        try:
            contents = {path.name: path.read_bytes().strip() for path in self._folder.iterdir() if not path.name.startswith(".")}
        except OSError:
            return None
        return {hashlib.sha256(key).hexdigest(): _UNSAFE.sub("_", name) for name, key in sorted(contents.items()) if key}


def key_commands(wanted: Mapping[str, str], actual: Mapping[str, str]) -> tuple[str, ...]:
    """Commands that make HAProxy's map the wanted one. What says that it is filled comes last."""
    entries = {**wanted, KEYS_LOADED: "yes"}
    gone = [f"del map {KEYS_MAP_FILE} {key}" for key in actual if key not in entries]
    come = [f"add map {KEYS_MAP_FILE} {key} {name}" for key, name in entries.items() if key not in actual]
    renamed = [f"set map {KEYS_MAP_FILE} {key} {name}" for key, name in entries.items() if key in actual and actual[key] != name]
    return (*gone, *renamed, *come)
