"""The programs of this checkout that stand for container images on the process node.

Manifests name the real images; what runs is the simulator, the real HAProxy and this checkout's own command line, so the same manifests
serve the local cluster and a real one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from e2e.clusters.local.config import Image, Replacement

_ENGINE_COMMANDS = (
    ["python3", "-m", "sglang.launch_server"],
    ["python", "-m", "sglang.launch_server"],
    ["sglang", "serve"],
    ["sglang-sim"],
)
_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def default_images(haproxy: Path) -> list[Image]:
    """Give the images of the project and three plain ones: python, busybox (the host's shell) and pause."""
    scripts = str(Path(sys.executable).parent)
    simulator, operator = str(Path(scripts) / "sglang-sim"), str(Path(scripts) / "mtpilot")
    return [
        Image(
            match=["lmsysorg/sglang:*", "lmsysorg/sglang@*", "*sglang-sim:*"],
            entrypoint=[simulator],
            path_prepend=[scripts],
            environment=_UNBUFFERED,
            replacements=[Replacement(command=command, by=[simulator]) for command in _ENGINE_COMMANDS],
        ),
        Image(
            match=["haproxy:*", "haproxytech/haproxy*:*", "*/haproxy:*"],
            entrypoint=[str(haproxy)],
            path_prepend=[str(haproxy.parent)],
        ),
        Image(match=["mtpilot:*", "*/mtpilot:*", "*/mtpilot@*"], entrypoint=[operator], path_prepend=[scripts], environment=_UNBUFFERED),
        Image(match=["python:*"], default_arguments=[sys.executable], path_prepend=[scripts], environment=_UNBUFFERED),
        Image(match=["busybox:*", "busybox"], default_arguments=["sh"]),
        Image(match=["pause:*", "*/pause:*"], entrypoint=["sleep", "infinity"]),
    ]
