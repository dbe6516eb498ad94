"""The probes of one running container: start-up first, then liveness and readiness, with a kubelet's thresholds.

Readiness goes on while a pod is being ended; liveness and start-up do not, or a slow drain would be cut short by its own probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.clusters.local.node.probes import Target, check
from e2e.clusters.local.node.records import ContainerRecord


@dataclass(slots=True, kw_only=True)
class Prober:
    """Keeps `record.started` and `record.ready`; asks for a restart by `unhealthy(probe name, why, grace or None)`."""

    spec: Mapping[str, Any]
    record: ContainerRecord
    target: Target
    changed: Callable[[], None]
    unhealthy: Callable[[str, str, int | None], None]
    _ending: asyncio.Event = field(default_factory=asyncio.Event)

    def stop_liveness(self) -> None:
        """No more restarts: the container is being ended."""
        self._ending.set()

    async def run(self) -> None:
        """Probe until cancelled."""
        startup, liveness, readiness = (self.spec.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness"))
        if startup is not None and not await self._until_started(startup):
            return
        self.record.started = True
        self.record.ready = readiness is None
        self.changed()
        async with asyncio.TaskGroup() as group:
            if liveness is not None:
                group.create_task(self._keep_alive(liveness))
            if readiness is not None:
                group.create_task(self._keep_ready(readiness))

    async def _until_started(self, probe: Mapping[str, Any]) -> bool:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        failures = 0
        while not self._ending.is_set():
            why = await check(probe, self.target)
            if why is None:
                return True
            failures += 1
            if failures >= probe.get("failureThreshold", 3):
                self.unhealthy("Startup", why, probe.get("terminationGracePeriodSeconds"))
                return False
            await asyncio.sleep(probe.get("periodSeconds", 10))
        return False

    async def _keep_alive(self, probe: Mapping[str, Any]) -> None:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        failures = 0
        while not self._ending.is_set():
            why = await check(probe, self.target)
            failures = failures + 1 if why is not None else 0
            if why is not None and failures >= probe.get("failureThreshold", 3) and not self._ending.is_set():
                self.unhealthy("Liveness", why, probe.get("terminationGracePeriodSeconds"))
                return
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _keep_ready(self, probe: Mapping[str, Any]) -> None:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        streak, last = 0, False
        while True:
            good = await check(probe, self.target) is None
            streak = streak + 1 if good == last else 1
            last = good
            threshold = probe.get("successThreshold", 1) if good else probe.get("failureThreshold", 3)
            if good != self.record.ready and streak >= threshold:
                self.record.ready = good
                self.changed()
            await asyncio.sleep(probe.get("periodSeconds", 10))
