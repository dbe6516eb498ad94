"""An OCI runtime for dockerd where this machine itself may not do all that `--privileged` asks for.

A container that is given every capability cannot start on a machine whose own bounding set lacks one: runc says "unable to apply
caps: operation not permitted". So what is lacking is taken out of the container's description, and everything else goes to runc as it is.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RUNC = os.environ.get("RUNC", "/usr/sbin/runc")
_NUMBERS = {"CAP_SYS_MODULE": 16, "CAP_SYS_RAWIO": 17, "CAP_SYS_RESOURCE": 24, "CAP_SYS_TIME": 25}


def lacking(status: str) -> set[str]:
    """Give the names of capabilities that a process with this /proc/PID/status cannot have."""
    line = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    bounding = int(line.split()[1], 16)
    return {name for name, number in _NUMBERS.items() if not bounding >> number & 1}


def without(description: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Take capabilities out of a bundle's config.json, or out of the process description of an exec."""
    process = description.get("process", description)
    capabilities = process.get("capabilities") or {}
    process["capabilities"] = {kind: [name for name in given if name not in names] for kind, given in capabilities.items()}
    return description


def described_by(arguments: list[str]) -> Path | None:
    """Give the file that describes the process which runc is told to start, or None where it starts none."""
    options = {"--bundle": "", "-b": "", "--process": "", "-p": ""}
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in options:
            options[name] = value if equals else arguments[index + 1]
    if "exec" in arguments:
        process = options["--process"] or options["-p"]
        return Path(process) if process else None
    if {"create", "run"} & set(arguments):
        return Path(options["--bundle"] or options["-b"] or ".") / "config.json"
    return None


def main() -> None:
    arguments = sys.argv[1:]
    names = lacking(Path("/proc/self/status").read_text())
    path = described_by(arguments) if names else None
    if path is not None:
        path.write_text(json.dumps(without(json.loads(path.read_text()), names)))
    os.execv(RUNC, [RUNC, *arguments])  # noqa: S606


if __name__ == "__main__":
    main()
