"""What the agent is told in place of an API server and an operator: made-up pods and a contention limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from mtpilot.model.snapshot import Manifest


@dataclass(slots=True)
class SaidPods:
    """A PodWatch that yields what it is told, and nothing before that: an API server that does not answer."""

    queue: asyncio.Queue[tuple[Manifest, ...]] = field(default_factory=asyncio.Queue)

    async def snapshots(self) -> AsyncIterator[tuple[Manifest, ...]]:
        """Each set of pods as it is said."""
        while True:
            yield await self.queue.get()


@dataclass(slots=True)
class SaidLimits:
    """The contention limit that is published; None: none."""

    limit: int | None = None

    def contention_limit(self) -> int | None:
        """The limit of now."""
        return self.limit
