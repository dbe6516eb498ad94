"""Whether the loops still turn.

kopf's own endpoint only proves that its HTTP server answers. Each service's loop beats after every turn, good or bad; a beat
that stays away means a wedged loop, and then the process is better restarted: nothing is lost by it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .context import Key

STALE_SECONDS = 180.0


@dataclass(slots=True)
class Heartbeat:
    """Last beats by key, on a clock that does not jump."""

    stale_seconds: float = STALE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _beats: dict[Key, float] = field(default_factory=dict)

    def beat(self, key: Key) -> None:
        self._beats[key] = self.clock()

    def forget(self, key: Key) -> None:
        self._beats.pop(key, None)

    def stale(self) -> tuple[Key, ...]:
        """Keys that have not beaten for too long."""
        limit = self.clock() - self.stale_seconds
        return tuple(sorted(key for key, at in self._beats.items() if at < limit))

    def __len__(self) -> int:
        return len(self._beats)
