"""The kind cluster that `make e2e` has made, one namespace for each scenario, and the report of what each sent and lost.

Without that cluster everything here is skipped: nothing is built or started by a test.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.kind import KindCluster, gpus
from e2e.kind.config import GATEWAY_NODE_PORT
from e2e.load import LoadResult
from mtpilot.model import names
from tests.helm_release import HelmRelease, restricted_namespace
from tests.integration.controller.scene import HARDWARE, ClusterScene, Manifest, inference_service
from tests.integration.support import eventually

_HERE = Path(__file__).parent
_numbers = itertools.count(1)
SYSTEM_NAMESPACE = "mtpilot-system"
_FIRST, _LAST = "test_life_of_a_release", "test_rights"  # the install is into an empty cluster; the rights are judged by what all did


@dataclass(slots=True)
class Tally:
    """What a scenario has sent; a request that is not completed is lost."""

    sent: int = 0
    lost: int = 0

    def add(self, *results: LoadResult | None) -> None:
        for result in results:
            assert result is not None
            self.sent += result.sent
            self.lost += result.sent - result.completed


@dataclass(slots=True)
class Report:
    """One line for each scenario, in the order of their ends; written after each, so that an interrupted run has its part."""

    path: Path | None
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, scenario: str, outcome: str, seconds: float, tally: Tally) -> None:
        line = {"scenario": scenario, "outcome": outcome, "seconds": round(seconds, 1)}
        self.lines.append(line | {"requests_sent": tally.sent, "requests_lost": tally.lost})
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({"scenarios": self.lines}, indent=1) + "\n")


_REPORT = pytest.StashKey[Report]()
_PASSED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("MTPILOT_E2E_REPORT")
    config.stash[_REPORT] = Report(Path(path) if path else None)
    if path:
        Path(path).unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: (item.path.stem == _LAST) - (item.path.stem == _FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":  # type: ignore[attr-defined]
        item.stash[_PASSED] = report.passed  # type: ignore[attr-defined]
    return report


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """What this scenario sends and loses, for the report."""
    found, started = Tally(), time.monotonic()
    yield found
    outcome = "passed" if request.node.stash.get(_PASSED, False) else "failed"
    request.config.stash[_REPORT].add(request.node.name.removeprefix("test_"), outcome, time.monotonic() - started, found)


@pytest.fixture(scope="session")
async def cluster() -> AsyncIterator[KindCluster]:
    """The cluster, with its nodes' GPUs kept; see e2e/kind.yaml."""
    found = KindCluster.found()
    if found is None:
        pytest.skip("no kind cluster: make e2e makes one and runs these")
    await found.open()
    async with gpus.kept(found.client):
        yield found
    await found.close()


@pytest.fixture(scope="session")
def log_start(cluster: KindCluster) -> int:
    """Where the audit log of this run begins: a cluster that was kept has that of others before it."""
    return cluster.audit_log_path.stat().st_size


@dataclass(slots=True)
class KindScene(ClusterScene):
    """A namespace of the kind cluster; its gateway is reached through a node port, as from outside a cluster."""

    cluster: KindCluster

    @property
    def urls(self) -> list[str]:
        return [self.cluster.gateway_url]

    def service(self, name: str = "chat", **changes: Any) -> Manifest:
        """`inference_service` with the simulator's image."""
        made = inference_service(name, **changes)
        made["spec"]["engine"] = {"image": self.cluster.images.simulator} | made["spec"]["engine"]
        return made

    async def expose(self, name: str = "chat") -> None:
        """The node port of the service's gateway, once it answers there; one service has it at a time."""
        selector = {names.LABEL_SERVICE: name, names.LABEL_COMPONENT: names.COMPONENT_GATEWAY}
        port = {"port": names.GATEWAY_PORT, "nodePort": GATEWAY_NODE_PORT}
        spec = {"type": "NodePort", "selector": selector, "ports": [port]}
        await self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"}, "spec": spec})

        async def answers() -> bool:
            timeout = aiohttp.ClientTimeout(total=5)
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with (
                    aiohttp.ClientSession(timeout=timeout) as session,
                    session.get(f"{self.cluster.gateway_url}/v1/models") as answer,
                ):
                    return answer.status == 200
            return False

        await eventually(answers, seconds=60, every_seconds=0.5)


def hardware(cluster: KindCluster, name: str = "rtx-x4", **gpu: Any) -> Manifest:
    """The hardware class of the larger pool, with the simulator's image."""
    made = copy.deepcopy(HARDWARE)
    made["metadata"]["name"] = name
    made["spec"]["gpu"] |= gpu
    made["spec"]["engine"]["image"] = cluster.images.simulator
    return made


@pytest.fixture
def release(cluster: KindCluster, tmp_path: Path, log_start: int) -> HelmRelease:
    """The chart as a person with a trial cluster installs it: with its own Prometheus, serving every namespace."""
    return _release(cluster, tmp_path)


def _release(cluster: KindCluster, home: Path) -> HelmRelease:
    values: dict[str, object] = {}
    for value, image in (("image", cluster.images.operator), ("gateway.haproxyImage", cluster.images.haproxy)):
        values[f"{value}.repository"], _, values[f"{value}.tag"] = image.rpartition(":")
    values |= {
        "prometheus.install": "true",
        "prometheus.image": cluster.images.prometheus,
        "prometheus.scrapeIntervalSeconds": 1,
        "prometheus.rateWindowSeconds": 5,
        "operator.periodSeconds": 1,
        "cleanup.timeoutSeconds": 60,
    }
    return HelmRelease(cluster, SYSTEM_NAMESPACE, home, values)


@pytest.fixture
async def system_namespace(cluster: KindCluster) -> str:
    return await restricted_namespace(cluster, SYSTEM_NAMESPACE)


@pytest.fixture
async def installed(release: HelmRelease, system_namespace: str, cluster: KindCluster) -> HelmRelease:
    """The release as the scenarios need it; an install that is there already stays, or is put right."""
    await release.install(timeout_seconds=180)
    await cluster.apply([hardware(cluster)])
    return release


@pytest.fixture
async def scene(cluster: KindCluster, request: pytest.FixtureRequest) -> AsyncIterator[KindScene]:
    """A namespace of the scenario's own; afterwards it is gone with its pods, and their GPUs are free."""
    name = f"e{next(_numbers)}-{request.node.name.removeprefix('test_').replace('_', '-')}"[:40].rstrip("-")
    found = KindScene(cluster, await cluster.create_namespace(name))
    yield found
    await found.clean()
    if await found.get("services", "outside"):
        await cluster.client.delete(found.path("services", "outside"))  # its node port must be free at once, a namespace takes its time
    await cluster.client.delete(f"/api/v1/namespaces/{name}")

    async def gone() -> bool:
        return not await found.all("pods")

    await eventually(gone, seconds=90)
