"""The demo from an empty machine to a summary: cluster, operator, service, three runs of the same load.

Each policy gets a fresh service and the same schedule, one after the other, so that nothing differs but the policy.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import platform
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from e2e.clusters.kube import ApiError, Manifest
from e2e.clusters.local.cluster import LocalCluster
from e2e.demo import fidelity, manifests
from e2e.demo.operating import Operator, operator
from e2e.demo.parameters import Parameters, schedule
from e2e.demo.shaping import TraceRow
from e2e.demo.summary import ALWAYS_BATCH, ALWAYS_MTP, AUTO, Outcome
from e2e.demo.timeline import Window
from e2e.demo.view import View
from e2e.demo.watching import Watcher, is_ready
from e2e.load import LoadResult, Schedule, run_load
from mtpilot.api.types import API_VERSION

ROOT = Path(__file__).resolve().parents[2]
_READY_SECONDS = 90.0
_GONE_SECONDS = 90.0


def repository_manifests() -> list[Manifest]:
    """CRDs, namespace, service account and rights, as the repository has them."""
    paths = [*sorted((ROOT / "crds").glob("*.yaml")), *sorted((ROOT / "e2e" / "manifests").glob("*.yaml"))]
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


def versions() -> dict[str, str]:
    """What took part."""
    found = {"python": platform.python_version(), "cpus": str(psutil.cpu_count())}
    for package in ("mtpilot", "sglang-sim", "kopf", "kubernetes"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


@dataclass(slots=True)
class _Run:
    """One demo in progress."""

    parameters: Parameters
    cluster: LocalCluster
    operator: Operator
    view: View
    schedule: Schedule
    out: Path
    watcher: Watcher
    results: dict[str, LoadResult] = field(default_factory=dict)
    step_time: dict[str, float] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.timings[name] = time.monotonic() - started

    def _serving(self, pinned: str | None) -> bool:
        self.operator.check()
        pods = [pod for pod in self.watcher.engine_pods() if is_ready(pod)]
        conditions = {item["type"]: item for item in self.watcher.service.get("status", {}).get("conditions") or ()}
        modes = {pod["metadata"]["labels"]["mtpilot.dev/mode"] for pod in pods}
        return (
            len(pods) == self.parameters.replicas
            and len(self.watcher.gateway_urls()) == self.parameters.gateway_replicas
            and conditions.get("Ready", {}).get("status") == "True"
            and (pinned is None or modes == {pinned})
        )

    async def start_service(self, pinned: str | None) -> None:
        """Apply a fresh service and wait until every replica and gateway serves."""
        await self.cluster.apply([manifests.inference_service(self.parameters, pinned=pinned)])
        await self.watcher.wait("the service is Ready", lambda: self._serving(pinned), timeout_seconds=_READY_SECONDS)

    async def delete_service(self) -> None:
        """Delete it, and wait until its pods are gone and their GPUs free."""
        path = f"/apis/{API_VERSION}/namespaces/{self.parameters.namespace}/inferenceservices/{self.parameters.service}"
        with contextlib.suppress(ApiError):
            await self.cluster.client.delete(path)
        await self.watcher.wait("the service's pods are gone", lambda: not self.watcher.pods, timeout_seconds=_GONE_SECONDS)

    async def measure(self, name: str) -> None:
        """Send the load once and keep what came of it."""
        self.view.phase(f"{name}: {len(self.schedule.requests)} requests in {self.schedule.seconds:.0f} s")
        steps = fidelity.StepTime()
        session = self.cluster.client.session
        measuring = asyncio.create_task(fidelity.measure(self.watcher, session, steps))
        start = time.time()
        try:
            result = await run_load(
                self.schedule,
                self.watcher.gateway_urls(),
                model=self.parameters.served_model,
                timeout_seconds=self.parameters.request_timeout_seconds,
                directory=self.out / "load" / name,
                on_counters=self.view.counters,
            )
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
        if name == AUTO:
            await self._settle()
        first_due = min((record.due_at for record in result.records), default=start)
        self.watcher.timeline.windows.append(Window(policy=name, start=first_due, end=time.time()))
        self.results[name], self.step_time[name] = result, steps.ratio
        self.view.phase(
            f"{name}: {result.completed} of {result.sent} answered, {result.output_tokens_per_second:,.0f} tok/s, "
            f"mean {result.mean_latency_seconds:.2f} s, p99 {result.p99_latency_seconds:.2f} s"
        )

    async def _settle(self) -> None:
        """Let the flip that is under way end, and the way back begin if the load's end came first."""

        def settled() -> bool:
            flips = list(self.watcher.timeline.flips.values())
            back = any(flip.to_mode == "mtp" and flip.outcome == "Completed" for flip in flips)
            return back and all(flip.outcome != "Started" for flip in flips)

        with contextlib.suppress(TimeoutError):
            await self.watcher.wait("the last flip has ended", settled, timeout_seconds=self.parameters.settle_seconds)

    async def policies(self) -> None:
        """Auto first, then the baselines, each on a fresh service."""
        runs: list[tuple[str, str | None]] = [(AUTO, None)]
        if self.parameters.baselines:
            runs += [(ALWAYS_MTP, "mtp"), (ALWAYS_BATCH, "batch")]
        for number, (name, pinned) in enumerate(runs):
            if number:
                self.view.phase(f"{name}: fresh service")
                with self._timed(f"delete before {name}"):
                    await self.delete_service()
            with self._timed(f"{name}: service ready"):
                await self.start_service(pinned)
            with self._timed(f"{name}: load"):
                await self.measure(name)


def _cpu_seconds() -> dict[str, float]:
    """CPU so far of this process' children by name."""
    used: dict[str, float] = {}
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            used[child.name()] = used.get(child.name(), 0.0) + times.user + times.system
    return used


@contextlib.asynccontextmanager
async def _cluster(parameters: Parameters, state: Path, view: View, timings: dict[str, float]) -> AsyncIterator[LocalCluster]:
    view.phase("local cluster: etcd, kube-apiserver, controller-manager, scheduler, process node, Prometheus")
    started = time.monotonic()
    async with LocalCluster.start(state_dir=state, scrape_interval_seconds=parameters.scrape_seconds) as cluster:
        await cluster.apply(repository_manifests())
        await cluster.create_namespace(parameters.namespace)
        await cluster.apply([manifests.hardware_class(parameters)])
        timings["cluster"] = time.monotonic() - started
        yield cluster


async def run_demo(parameters: Parameters, trace: Sequence[TraceRow], view: View, *, state: Path, out: Path) -> Outcome:
    """Everything up to the outcome; TimeoutError, ComponentError, OperatorEndedError where a part does not come up."""
    timings: dict[str, float] = {}
    arrivals = schedule(parameters, trace)
    started = time.monotonic()
    async with _cluster(parameters, state, view, timings) as cluster:
        kubeconfig = await cluster.service_account_kubeconfig("mtpilot-system", "mtpilot")
        arguments = [
            *("--prometheus-url", cluster.prometheus_url, "--scrape-interval", f"{parameters.scrape_seconds:g}"),
            *("--rate-window", f"{parameters.rate_window_seconds:g}", "--period", f"{parameters.period_seconds:g}"),
            *("--namespace", parameters.namespace),
        ]
        async with (
            operator(arguments, kubeconfig=kubeconfig, log=out / "operator.log") as running,
            Watcher(cluster.client, cluster.prometheus_url, parameters, view.mark) as watcher,
        ):
            view.attach(watcher)
            view.phase("operator and InferenceService chat: 4 replicas on 16 GPUs, all in mtp")
            run = _Run(parameters, cluster, running, view, arrivals, out, watcher, timings=timings)
            await run.policies()
            cpu = _cpu_seconds()
    timings["total"] = time.monotonic() - started
    return Outcome(
        parameters=parameters,
        timeline=watcher.timeline,
        results=run.results,
        step_time=run.step_time,
        timings=timings,
        versions=versions(),
        cpu_seconds=cpu,
    )
