"""Progress of long steps: a live line with the elapsed time on a terminal, plain lines elsewhere.

A cold set-up takes minutes. In a CI log nothing must be redrawn, and silence must not look like a hang.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PLAIN_INTERVAL_SECONDS = 20.0


class Step:
    """One long step that is under way; `note` says how far it is."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._started = self._printed = time.monotonic()
        self._live: Progress | None = None
        if console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("[dim]{task.fields[note]}"), TimeElapsedColumn())
            self._live = Progress(*columns, console=console, transient=True)
            self._task = self._live.add_task(title, total=None, note="")
            self._live.start()
        else:
            console.print(f"{title} …", highlight=False)

    def note(self, text: str) -> None:
        """Show how far the step is; on a plain log at most every `PLAIN_INTERVAL_SECONDS`."""
        if self._live is not None:
            self._live.update(self._task, note=text)
        elif time.monotonic() - self._printed >= PLAIN_INTERVAL_SECONDS:
            self._printed = time.monotonic()
            self._console.print(f"{self._title}: {text} ({self.elapsed_seconds:.0f} s)", highlight=False)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started

    def close(self, outcome: str) -> None:
        """End the step and print its outcome with the time it took."""
        if self._live is not None:
            self._live.stop()
        self._console.print(f"{self._title}: {outcome} ({self.elapsed_seconds:.1f} s)", highlight=False)


@contextmanager
def step(console: Console, title: str) -> Iterator[Step]:
    """Show one long step; its end is printed also when it fails."""
    current = Step(console, title)
    try:
        yield current
    except BaseException:
        current.close("failed")
        raise
    current.close("done")
