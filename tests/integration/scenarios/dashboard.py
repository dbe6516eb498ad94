"""The chart's own Prometheus configuration, on a Prometheus beside the cluster's, and what the dashboard's queries find there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from e2e import toolchain
from e2e.chart_dashboard import Answer, ask, save
from e2e.clusters.local import prometheus
from e2e.clusters.local.ports import free_ports
from tests.chart_rendering import CHART, only, rendered
from tests.integration.controller.scene import Scene
from tests.integration.support import eventually

# Counts that come into being with the first failure.
ONLY_IN_TROUBLE = {"mtpilot_reconcile_errors_total"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPrometheus:
    """`operator_port` is where the operator must serve its metrics to be scraped."""

    url: str
    operator_port: int
    scene: Scene
    started: float

    async def assert_dashboard_has_series(self, service: str = "chat") -> None:
        """Every query of the dashboard is understood and finds a series, those aside that speak of failures."""
        variables = {"namespace": self.scene.namespace, "service": service, "__rate_interval": "5s"}
        missing: list[str] = []

        async def whole() -> list[Answer]:
            nonlocal missing
            answers = await ask(self.url, variables, start=self.started, end=time.time())
            missing = [answer.query for answer in answers if not answer.series and not _speaks_of_trouble(answer)]
            return [] if missing else answers

        try:
            answers = await eventually(whole, seconds=15)
        except AssertionError:
            raise AssertionError(f"no series for {missing}") from None
        if path := os.environ.get("MTPILOT_DASHBOARD_SERIES"):
            save(answers, Path(path))
        assert len(answers) > 20

    async def assert_targets_are_up(self) -> None:
        """Engines, HAProxy, agents and the operator answer, by the chart's own configuration."""

        async def up() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v1/targets") as answer:
                targets = (await answer.json())["data"]["activeTargets"]
            found = {(target["labels"]["job"], target["health"]) for target in targets}
            ports = {target["scrapeUrl"].rpartition(":")[2] for target in targets if target["labels"]["job"] == "mtpilot-gateways"}
            return found == {(f"mtpilot-{name}", "up") for name in ("engines", "gateways", "operator")} and len(ports) == 2

        await eventually(up, seconds=20)


def _speaks_of_trouble(answer: Answer) -> bool:
    return any(name in answer.query for name in ONLY_IN_TROUBLE)


@contextlib.asynccontextmanager
async def chart_prometheus(scene: Scene, folder: Path) -> AsyncIterator[ChartPrometheus]:
    """Run Prometheus as the chart configures it; only its addresses are those of this machine."""
    port, operator_port = free_ports(2)
    kubeconfig = await scene.cluster.service_account_kubeconfig(prometheus.NAMESPACE, prometheus.SERVICE_ACCOUNT)
    values = f"prometheus.install=true,prometheus.scrapeIntervalSeconds=1,watchNamespaces={{{scene.namespace}}}"
    config = yaml.safe_load(only(rendered("--set", values), "ConfigMap", "prometheus")["data"]["prometheus.yml"])
    for job in config["scrape_configs"]:
        for discovery in job.get("kubernetes_sd_configs", ()):
            discovery["kubeconfig_file"] = str(kubeconfig)
        for static in job.get("static_configs", ()):
            static["targets"] = [f"127.0.0.1:{operator_port}"]
    config["rule_files"] = [str(CHART / "files/alerts.yaml")]
    path = folder / "chart-prometheus.yml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    binary = toolchain.ensure(["prometheus"])["prometheus"]
    arguments = (f"--config.file={path}", f"--storage.tsdb.path={folder / 'chart-prometheus'}", f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "chart-prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binary, *arguments, "--scrape.discovery-reload-interval=1s", "--log.level=warn", stdout=log, stderr=log
        )
    try:
        yield ChartPrometheus(url=f"http://127.0.0.1:{port}", operator_port=operator_port, scene=scene, started=time.time())
    finally:
        process.terminate()
        await process.wait()
