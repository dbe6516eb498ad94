"""One run of the bench, from the first process to the last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from e2e.bench_gateway import omlx, phases, routers, wheels
from e2e.bench_gateway.contenders import Contender, Direct, Place, PlainHAProxy
from e2e.bench_gateway.fleet import Fleet
from e2e.bench_gateway.instant import InstantEngines
from e2e.bench_gateway.mtpilot_gateway import MtpilotGateway
from e2e.bench_gateway.parameters import CURVE, Parameters
from e2e.clusters.local.ports import AddressBlock
from e2e.load import LoadResult
from e2e.toolchain import ensure

MTPILOT, HAPROXY, DIRECT = "mtpilot", "haproxy", "direct"
CACHE_AWARE, POWER_OF_TWO, LEAST_LOAD = "sglang_router_cache_aware", "sglang_router_power_of_two", "smg_least_load"
ROWS = (MTPILOT, HAPROXY, DIRECT, CACHE_AWARE, POWER_OF_TWO, LEAST_LOAD)
_FIRST_ENGINE, _FIRST_INSTANT, _FIRST_OMLX, _FIRST_GATEWAY = 10, 40, 70, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one contender did. flip_seconds: both flips together."""

    mixed: LoadResult
    flipped: LoadResult
    flip_seconds: float
    tiny: phases.Tiny
    removal: str


@dataclass(slots=True, kw_only=True)
class Outcome:
    """All that a run brought."""

    parameters: Parameters
    rows: dict[str, Row] = field(default_factory=dict)
    matrices: dict[str, omlx.Matrix] = field(default_factory=dict)


class View(Protocol):
    """How the bench speaks while it runs."""

    def step(self, text: str) -> None:
        """A new part begins."""

    def counters(self, counters: dict[str, Any]) -> None:
        """Totals of the load generator."""


STEPS = 1 + 4 * len(ROWS)


@dataclass(slots=True, kw_only=True)
class _Bench:
    parameters: Parameters
    view: View
    folder: Path
    block: AddressBlock
    session: aiohttp.ClientSession
    haproxy: Path
    makers: Mapping[str, Callable[[Place], Contender]]

    def addresses(self, first: int, count: int) -> list[str]:
        return [str(self.block.network[first + index]) for index in range(count)]

    def place(self, number: int, name: str) -> Place:
        address = str(self.block.network[_FIRST_GATEWAY + number])
        return Place(address=address, folder=self.folder / name, session=self.session, haproxy=self.haproxy)

    async def matrices(self) -> dict[str, omlx.Matrix]:
        """Both tables side by side: their replicas mostly wait."""
        work = [
            omlx.measure(
                table, self.place(50 + number, f"omlx-{name}"), self.addresses(_FIRST_OMLX + 2 * number, 2), self.parameters.omlx_rounds
            )
            for number, (name, table) in enumerate(omlx.TABLES.items())
        ]
        return dict(zip(omlx.TABLES, await asyncio.gather(*work), strict=True))

    async def row(self, number: int, name: str, fleet: Fleet, engines: InstantEngines) -> Row:
        """Everything of one contender; it starts twice, in front of the simulators and in front of the instant engines."""
        parameters = self.parameters
        self.view.step(f"{name}: start")
        contender = self.makers[name](self.place(2 * number, name))
        async with phases.running(contender, fleet.replicas, parameters.settle_seconds):
            self.view.step(f"{name}: mixed load")
            mixed = await phases.mixed_load(contender, parameters, self.view.counters)
            self.view.step(f"{name}: two flips under load")
            flipped, seconds = await phases.flips(contender, fleet, parameters)
        self.view.step(f"{name}: tiny answers")
        contender = self.makers[name](self.place(2 * number + 1, f"{name}-tiny"))
        async with phases.running(contender, engines.replicas, parameters.settle_seconds):
            tiny = await phases.tiny(contender, engines, parameters)
        return Row(mixed=mixed, flipped=flipped, flip_seconds=seconds, tiny=tiny, removal=contender.removal)


def _makers(parameters: Parameters, only: tuple[str, ...]) -> dict[str, Callable[[Place], Contender]]:
    made: dict[str, Callable[[Place], Contender]] = {
        MTPILOT: lambda place: MtpilotGateway(place=place, limit=parameters.contention_limit),
        HAPROXY: lambda place: PlainHAProxy(place=place),
        DIRECT: lambda _: Direct(),
    }
    if {CACHE_AWARE, POWER_OF_TWO} & set(only):
        router = routers.sglang_router(wheels.environment("sglang-router"))
        made[CACHE_AWARE] = lambda place: routers.Router(place=place, command=router, policy="cache_aware")
        made[POWER_OF_TWO] = lambda place: routers.Router(place=place, command=router, policy="power_of_two")
    if LEAST_LOAD in only:
        smg = routers.smg(wheels.environment("smg"))
        made[LEAST_LOAD] = lambda place: routers.Router(place=place, command=smg, policy="least_load")
    return made


@contextlib.contextmanager
def _block() -> Iterator[AddressBlock]:
    block = AddressBlock.reserve()
    try:
        yield block
    finally:
        block.release()


async def run_bench(parameters: Parameters, view: View, folder: Path, only: tuple[str, ...] = ROWS) -> Outcome:
    """The oMLX table, then every contender in turn on one fleet. BenchError, OSError or TimeoutError where it cannot be run."""
    view.step("install and the oMLX table")
    haproxy = ensure(["haproxy"])["haproxy"]
    makers = await asyncio.to_thread(_makers, parameters, only)
    outcome = Outcome(parameters=parameters)
    timeout = aiohttp.ClientTimeout(total=10)
    with _block() as block:
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(force_close=True)) as session:
            bench = _Bench(parameters=parameters, view=view, folder=folder, block=block, session=session, haproxy=haproxy, makers=makers)
            outcome.matrices = await bench.matrices()
            settings = {"SGLANG_SIM_CURVE": str(CURVE), "SGLANG_SIM_TIME_SCALE": str(parameters.time_scale)}
            (folder / "fleet").mkdir(parents=True, exist_ok=True)
            fleet = Fleet(folder=folder / "fleet", session=session, environment=settings)
            engines = InstantEngines(haproxy=haproxy, folder=folder / "instant")
            try:
                await fleet.start(parameters.modes, bench.addresses(_FIRST_ENGINE, len(parameters.modes)))
                await engines.start(session, fleet.replicas, bench.addresses(_FIRST_INSTANT, len(parameters.modes)))
                for number, name in enumerate(only):
                    outcome.rows[name] = await bench.row(number, name, fleet, engines)
            finally:
                await engines.stop()
                await fleet.stop()
    return outcome
