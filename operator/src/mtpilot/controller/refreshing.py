"""Statuses that only inform: kept right in the background, beside the loops of the services.

Nothing hangs on them, so a failure waits for the next round.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from mtpilot.ports import ClusterError

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Refresher:
    """Calls `refresh` every `period_seconds`, and soon after a wake. `what`: the kind of object, in words."""

    what: str
    refresh: Callable[[], Awaitable[int]]
    period_seconds: float
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            try:
                await self.refresh()
            except ClusterError as error:
                _log.warning("status not refreshed", what=self.what, error=str(error))
            except Exception:
                _log.exception("status not refreshed", what=self.what)
            try:
                async with asyncio.timeout(self.period_seconds):
                    await self._woken.wait()
            except TimeoutError:
                pass
