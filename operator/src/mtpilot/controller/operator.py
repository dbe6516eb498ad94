"""The operator process: checks, wiring, and the end of it.

Everything is made here and handed on as arguments; there is no global state, so that a test can run two of them.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import kopf
import structlog
from kopf._core.engines.peering import Identity

from mtpilot.adapters.clock import SystemClock
from mtpilot.adapters.kube.client import KubeClient
from mtpilot.adapters.kube.cluster import KubeCluster
from mtpilot.adapters.kube.definitions import outdated_definitions
from mtpilot.adapters.kube.paths import INFERENCE_SERVICE
from mtpilot.adapters.kube.review import missing_rights
from mtpilot.adapters.prometheus import RATE_WINDOW_SECONDS, PrometheusMetrics
from mtpilot.adapters.prometheus_access import PrometheusAccess
from mtpilot.adapters.sglang import SglangEngines
from mtpilot.model.snapshot import GatewayImages
from mtpilot.ports import ClusterError
from mtpilot.reconcile import plan
from mtpilot.telemetry.endpoint import MetricsEndpoint
from mtpilot.telemetry.metrics import OperatorMetrics, version

from .context import Options, Ports
from .handlers import register
from .loops import Loops
from .refreshing import Refresher
from .settings import kopf_settings

_HARDWARE_SECONDS = 15.0
_PROFILES_SECONDS = 60.0
_LOOK_SECONDS = 60.0
_log = structlog.get_logger(__name__)


class StartError(Exception):
    """The operator cannot work here; the message says what to do."""


async def run_operator(
    options: Options,
    *,
    prometheus_url: str,
    scrape_interval_seconds: float,
    rate_window_seconds: float = RATE_WINDOW_SECONDS,
    prometheus_access: PrometheusAccess | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, or until a part of it fails for good.

    Raises:
        StartError: no access, no CRDs, or rights are missing.
    """
    prometheus = PrometheusMetrics(
        prometheus_url,
        scrape_interval_seconds=scrape_interval_seconds,
        rate_window_seconds=rate_window_seconds,
        access=prometheus_access,
    )
    async with _open_ports(prometheus, options.images) as (client, ports):
        await check_cluster(client, options.namespaces)
        metrics = OperatorMetrics()
        loops = Loops(ports=ports, planner=plan, metrics=metrics, period_seconds=options.period_seconds)
        endpoint = MetricsEndpoint(metrics.registry, options.host, options.metrics_port) if options.metrics_port is not None else None
        if endpoint is not None:
            _log.info("metrics", port=await endpoint.start())
        hardware = Refresher("hardware classes", ports.cluster.refresh_hardware, _HARDWARE_SECONDS)
        profiles = Refresher("throughput profiles", partial(ports.cluster.refresh_profiles, options.namespaces), _PROFILES_SECONDS)
        background = [
            asyncio.create_task(hardware.run(), name=hardware.what),
            asyncio.create_task(profiles.run(), name=profiles.what),
            asyncio.create_task(_look_for_services(client, loops, options.namespaces), name="services without a loop"),
        ]
        _log.info("starting", version=version(), namespaces=options.namespaces or "all", prometheus=prometheus_url)
        try:
            await _run_kopf(options, loops, profiles)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            if endpoint is not None:
                await endpoint.stop()
            _log.info("stopped")


async def _run_kopf(options: Options, loops: Loops, profiles: Refresher) -> None:
    registry = kopf.OperatorRegistry()
    register(registry, loops, profiles)
    liveness = f"http://{options.host}:{options.liveness_port}/healthz" if options.liveness_port is not None else None
    await kopf.operator(
        registry=registry,
        settings=kopf_settings(),
        clusterwide=not options.namespaces,
        namespaces=options.namespaces,
        liveness_endpoint=liveness,
        standalone=True,
        identity=Identity(socket.gethostname()),  # kopf would ask for the user's name, which a container's uid need not have
    )


@asynccontextmanager
async def _open_ports(metrics: PrometheusMetrics, images: GatewayImages) -> AsyncIterator[tuple[KubeClient, Ports]]:
    try:
        client = await KubeClient.connect()
    except ClusterError as error:
        metrics.close()
        raise StartError(str(error)) from error
    try:
        async with client, SglangEngines() as engines:
            yield client, Ports(cluster=KubeCluster(client, images), metrics=metrics, engine=engines, clock=SystemClock())
    finally:
        metrics.close()


async def check_cluster(client: KubeClient, namespaces: tuple[str, ...]) -> None:
    """Ask for what would otherwise fail in the middle of a flip.

    Raises:
        StartError: the API server does not answer, the CRDs are missing or older than this operator, or rights are missing.
    """
    try:
        scopes: tuple[str | None, ...] = namespaces or (None,)
        for namespace in scopes:
            missing = await missing_rights(client, namespace)
            if missing:
                where = f"in namespace {namespace}" if namespace else "in all namespaces"
                raise StartError(f"this account may not, {where}: {'; '.join(missing)} (see e2e/manifests/rbac-operator.yaml)")
            await client.list_all(*INFERENCE_SERVICE, namespace=namespace, cached=True, metadata_only=True)
        outdated = await outdated_definitions(client)
    except ClusterError as error:
        if getattr(error, "status", None) == 404:
            raise StartError("the CRDs are not installed: kubectl apply --server-side -f crds/") from error
        raise StartError(f"the cluster cannot be used: {error}") from error
    if outdated:
        mended = "kubectl apply --server-side -f crds/ (of this version) or helm upgrade, then start again"
        raise StartError(f"the CRDs are older than this operator, which could write no status: {'; '.join(outdated)}: {mended}")


async def _look_for_services(client: KubeClient, loops: Loops, namespaces: tuple[str, ...]) -> None:
    """Start a loop for every service that has none: a watch that died unnoticed costs a minute, not a restart."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            for namespace in namespaces or (None,):
                found = await client.list_all(*INFERENCE_SERVICE, namespace=namespace, cached=True, metadata_only=True)
                loops.ensure_all((obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in found)
        except ClusterError as error:
            _log.warning("services not listed", error=str(error))
