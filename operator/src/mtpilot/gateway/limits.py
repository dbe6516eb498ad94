"""The routing limits that the operator publishes, from a ConfigMap that is mounted beside the agent.

A file, because it then outlives the API server, and changes while the pod runs without a right to read anything more.
"""

from pathlib import Path

from mtpilot.render.routing import CONTENTION_LIMIT_KEY


class FileLimits:
    """Limits in `folder`, one file for each."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / CONTENTION_LIMIT_KEY

    def contention_limit(self) -> int | None:
        """The number in the file; None where there is no such file or no positive number in it."""
        try:
            text = self._file.read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None
        return int(text) if text.isascii() and text.isdecimal() and int(text) > 0 else None
