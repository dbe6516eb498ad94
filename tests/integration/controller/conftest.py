"""The operator as a process of its own, under its service account, serving one namespace of the shared cluster.

It can be killed and started again by hand: what it knows must all be in the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters.local import LocalCluster
from tests.integration.controller import audit
from tests.integration.controller.scene import HARDWARE, Scene

_REPOSITORY = Path(__file__).parents[3]
Manifest = dict[str, Any]


@dataclass(slots=True)
class Operator:
    """`mtpilot run` for one namespace; `arguments` are added to the usual ones."""

    cluster: LocalCluster
    kubeconfig: Path
    namespace: str
    log: Path
    arguments: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = field(default=None)

    async def start(self) -> None:
        command = [str(Path(sys.executable).parent / "mtpilot"), "run", "-n", self.namespace]
        command += ["--prometheus-url", self.cluster.prometheus_url, "--scrape-interval", "1", "--period", "1", "--host", "127.0.0.1"]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *command, *self.arguments, env=environment, stdout=output, stderr=asyncio.subprocess.STDOUT
            )

    async def kill(self) -> None:
        """SIGKILL, as when its node dies."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM; gives the exit status."""
        if self.process is None:
            return 0
        if self.process.returncode is None:
            self.process.terminate()
            await asyncio.wait_for(self.process.wait(), 25)
        return self.process.returncode or 0

    def lines(self) -> str:
        return self.log.read_text(errors="replace")


@pytest.fixture(scope="session")
async def prepared_cluster(local_cluster: LocalCluster) -> AsyncIterator[LocalCluster]:
    """The cluster with CRDs, the operator's account and a hardware class; at the end, nothing must have been refused to our accounts."""
    manifests: list[Manifest] = []
    for path in [*sorted((_REPOSITORY / "crds").glob("*.yaml")), _REPOSITORY / "e2e/manifests/rbac-operator.yaml"]:
        manifests += [found for found in yaml.safe_load_all(path.read_text()) if found]
    await local_cluster.apply([*manifests, HARDWARE])
    yield local_cluster
    assert audit.refusals(local_cluster.audit_log_path) == []


@pytest.fixture
async def operators(prepared_cluster: LocalCluster, namespace: str, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Operator]]:
    """Give a context manager that runs an operator for the test's namespace; all share one log file."""
    kubeconfig = await prepared_cluster.service_account_kubeconfig("mtpilot-system", "mtpilot")

    @contextlib.asynccontextmanager
    async def running(*arguments: str) -> AsyncIterator[Operator]:
        operator = Operator(prepared_cluster, kubeconfig, namespace, tmp_path / "operator.log", arguments)
        await operator.start()
        try:
            yield operator
        finally:
            await operator.kill()

    return running


@pytest.fixture
async def operator(operators: Callable[..., AbstractAsyncContextManager[Operator]]) -> AsyncIterator[Operator]:
    async with operators() as running:
        yield running


@pytest.fixture
async def scene(prepared_cluster: LocalCluster, namespace: str) -> AsyncIterator[Scene]:
    """The test's namespace; at the end the finalizers of what is left there are taken off, so that the namespace can go."""
    found = Scene(prepared_cluster, namespace)
    yield found
    await found.clean()
