"""The demo from an empty machine to a summary: cluster, operator, services, three runs of the same load.

Each policy gets a fresh service and the same schedule, one after the other, so that nothing differs but the policy. The
next service loads in the quiet end of the run before it, which takes no GPU from it and saves a minute.
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
from e2e.clusters.local.config import NodePool, NodePools
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
from mtpilot.model import names

ROOT = Path(__file__).resolve().parents[2]
_READY_SECONDS = 180.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One run: its name in the summary, its service, and the mode that all its replicas are pinned to (None: Auto)."""

    name: str
    service: str
    pinned: str | None


def policies_of(parameters: Parameters) -> list[Policy]:
    """The runs, in order."""
    auto = Policy(name=AUTO, service=parameters.service, pinned=None)
    baselines = [
        Policy(name=ALWAYS_MTP, service=f"{parameters.service}-mtp", pinned="mtp"),
        Policy(name=ALWAYS_BATCH, service=f"{parameters.service}-batch", pinned="batch"),
    ]
    return [auto, *(baselines if parameters.baselines else [])]


def node_pools(parameters: Parameters) -> NodePools:
    """GPUs for two services at a time: while one is measured the next one loads."""
    gpus = 2 * parameters.gpus_per_replica
    nodes = 2 * parameters.gpu_budget // gpus
    return NodePools(
        pools=(
            NodePool(name="rtx-pro-6000", nodes=nodes, gpu_product=manifests.GPU_PRODUCT, gpus_per_node=gpus),
            NodePool(name="cpu", nodes=1),
        )
    )


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

    def _lacking(self, policy: Policy) -> str:
        """What a service still lacks to be measured, in words; empty when it serves as a whole."""
        self.operator.check()
        pods = [pod for pod in self.watcher.pods_of(policy.service, names.COMPONENT_ENGINE) if is_ready(pod)]
        modes = {pod["metadata"]["labels"][names.LABEL_MODE] for pod in pods}
        gateways = len(self.watcher.gateway_urls(policy.service))
        conditions = self.watcher.services.get(policy.service, {}).get("status", {}).get("conditions") or ()
        ready = next((item for item in conditions if item["type"] == "Ready"), {"status": "Unknown", "reason": "no status yet"})
        lacking = [
            (len(pods) == self.parameters.replicas, f"{len(pods)} of {self.parameters.replicas} replicas are ready"),
            (gateways == self.parameters.gateway_replicas, f"{gateways} of {self.parameters.gateway_replicas} gateways are ready"),
            (ready["status"] == "True", f"Ready is {ready['status']} ({ready['reason']})"),
            (policy.pinned is None or modes <= {policy.pinned}, f"modes are {', '.join(sorted(modes))}, not {policy.pinned}"),
        ]
        return "; ".join(text for there, text in lacking if not there)

    async def start(self, policy: Policy) -> None:
        """Apply the policy's service and wait until every replica and gateway serves."""
        await self.cluster.apply([manifests.inference_service(self.parameters, policy.service, pinned=policy.pinned)])
        try:
            await self.watcher.wait(f"{policy.service} serves", lambda: not self._lacking(policy), timeout_seconds=_READY_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self._lacking(policy)}") from error

    async def delete(self, policy: Policy) -> None:
        """Delete the policy's service; it drains and goes by itself."""
        path = f"/apis/{API_VERSION}/namespaces/{self.parameters.namespace}/inferenceservices/{policy.service}"
        with contextlib.suppress(ApiError):
            await self.cluster.client.delete(path)

    async def measure(self, policy: Policy) -> None:
        """Send the load once and keep what came of it."""
        self.view.phase(f"{policy.name}: {len(self.schedule.requests)} requests in {self.schedule.seconds:.0f} s")
        steps = fidelity.StepTime()
        measuring = asyncio.create_task(fidelity.measure(self.watcher, self.cluster.client.session, steps))
        start = time.time()
        try:
            result = await run_load(
                self.schedule,
                self.watcher.gateway_urls(policy.service),
                model=self.parameters.served_model,
                timeout_seconds=self.parameters.request_timeout_seconds,
                directory=self.out / "load" / policy.name,
                on_counters=self.view.counters,
            )
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
        if policy.pinned is None:
            await self._settle(policy.service)
        first_due = min((record.due_at for record in result.records), default=start) - self.schedule.requests[0].at_seconds
        self.watcher.timeline.windows.append(Window(policy=policy.name, service=policy.service, start=first_due, end=time.time()))
        self.results[policy.name], self.step_time[policy.name] = result, steps.ratio
        self.view.phase(
            f"{policy.name}: {result.completed} of {result.sent} answered, {result.output_tokens_per_second:,.0f} tok/s, "
            f"mean {result.mean_latency_seconds:.2f} s, p99 {result.p99_latency_seconds:.2f} s"
        )

    async def _settle(self, service: str) -> None:
        """Let the flip that is under way end, and one way back as well if the end of the load came first."""

        def settled() -> bool:
            flips = [flip for flip in self.watcher.timeline.flips.values() if flip.service == service]
            back = any(flip.to_mode == "mtp" and flip.outcome == "Completed" for flip in flips)
            return back and all(flip.outcome != "Started" for flip in flips)

        with contextlib.suppress(TimeoutError):
            await self.watcher.wait("the last flip has ended", settled, timeout_seconds=self.parameters.settle_seconds)

    async def _start_later(self, policy: Policy) -> None:
        """Start the next service in the quiet end of a run, so that its engines are loaded when that run is over."""
        await asyncio.sleep(self.parameters.quiet_from_seconds)
        await self.start(policy)

    async def policies(self) -> None:
        """Auto first, then the baselines, each on a service of its own."""
        runs = policies_of(self.parameters)
        with self._timed(f"{runs[0].name}: service ready"):
            await self.start(runs[0])
        for policy, following in zip(runs, [*runs[1:], None], strict=True):
            self.watcher.focus = policy.service
            async with asyncio.TaskGroup() as tasks:
                if following is not None:
                    tasks.create_task(self._start_later(following))
                with self._timed(f"{policy.name}: load"):
                    await self.measure(policy)
                if following is not None and self._lacking(following):
                    self.view.phase(f"{following.name}: not all of {following.service} is up yet: {self._lacking(following)}")
            await self.delete(policy)


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
    async with LocalCluster.start(
        state_dir=state, scrape_interval_seconds=parameters.scrape_seconds, nodes=node_pools(parameters)
    ) as cluster:
        await cluster.apply(repository_manifests())
        await cluster.create_namespace(parameters.namespace)
        await cluster.apply([manifests.hardware_class(parameters), manifests.throughput_profile(parameters)])
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
            view.phase(
                f"operator, and InferenceService {parameters.service}: {parameters.replicas} replicas on {parameters.gpu_budget} GPUs"
            )
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
