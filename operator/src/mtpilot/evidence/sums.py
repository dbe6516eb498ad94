"""SHA256SUMS: one line for each file, as `sha256sum --check` reads it."""

import re
from collections.abc import Mapping
from hashlib import sha256

SUMS = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)\n")


def sha256_hex(content: bytes) -> str:
    """Of a file's bytes."""
    return sha256(content).hexdigest()


def sums_text(files: Mapping[str, bytes]) -> str:
    """By rising name; SHA256SUMS itself is left out."""
    return "".join(f"{sha256_hex(files[name])}  {name}\n" for name in sorted(files) if name != SUMS)


def sums_problems(files: Mapping[str, bytes]) -> list[str]:
    """What is not as SHA256SUMS says, in words; empty: every file is listed once, in order, and unchanged.

    files: name, with `/` between folders, to content, SHA256SUMS among them.
    """
    if SUMS not in files:
        return [f"{SUMS} is missing"]
    text = files[SUMS].decode("utf-8", errors="replace")
    listed = {name: digest for digest, name in _LINE.findall(text)}
    found = [f"{name} is listed in {SUMS} but missing" for name in listed if name not in files]
    for name in sorted(set(files) - {SUMS}):
        digest = sha256_hex(files[name])
        if name not in listed:
            found.append(f"{name} is not listed in {SUMS}")
        elif digest != listed[name]:
            found.append(f"{name} was changed: its SHA-256 is {digest}, {SUMS} says {listed[name]}")
    if not found and text != sums_text(files):
        found.append(f"{SUMS} has other lines than one for each file, by rising name")
    return found
