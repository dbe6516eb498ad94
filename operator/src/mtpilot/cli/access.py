"""Reading a live service for a person: one connection, one answer."""

from typing import TYPE_CHECKING, Annotated

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.model.snapshot import Service, Snapshot

NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Its namespace; default: that of the kubeconfig's context.", show_default=False)
]


def chosen_namespace(option: str | None) -> str:
    """The namespace given, else the one that kubectl would take."""
    if option is not None:
        return option
    from mtpilot.adapters.kube.access import context_namespace

    return context_namespace()


async def read_service(name: str, namespace: str) -> "Service":
    """The service as the API server has it; leaves with NOT_FOUND or FAILED."""
    from mtpilot.adapters.kube.client import KubeClient
    from mtpilot.adapters.kube.gather import gather_service, service_from_object
    from mtpilot.ports import ClusterError

    try:
        async with await KubeClient.connect() as client:
            obj = await gather_service(client, namespace, name)
            if obj is None:
                exits.leave(f"no InferenceService {namespace}/{name}", exits.NOT_FOUND)
            return service_from_object(obj)
    except ClusterError as error:
        exits.leave(str(error), exits.FAILED)


async def read_snapshot(name: str, namespace: str, *, prometheus_url: str | None, scrape_interval: float) -> "Snapshot":
    """Everything that the operator would look at; without a Prometheus the metrics are left out."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from mtpilot.adapters.kube.client import KubeClient
    from mtpilot.adapters.kube.cluster import KubeCluster
    from mtpilot.adapters.prometheus import PrometheusMetrics
    from mtpilot.adapters.sglang import SglangEngines
    from mtpilot.model.names import gateway_name
    from mtpilot.ports import ClusterError

    try:
        async with await KubeClient.connect() as client, SglangEngines() as engines:
            snapshot = await KubeCluster(client).gather(namespace, name)
            if snapshot is None:
                exits.leave(f"no InferenceService {namespace}/{name}", exits.NOT_FOUND)
            pods = [pod for pod in snapshot.pods if not pod.finished]
            snapshot = replace(snapshot, engines=dict(await engines.loads(pods)), taken_at=datetime.now(UTC))
            if prometheus_url is None:
                return snapshot
            metrics = PrometheusMetrics(prometheus_url, scrape_interval_seconds=scrape_interval)
            gateways = [child for child in snapshot.children if child.kind == "Deployment" and child.name == gateway_name(name)]
            changed_at = max((child.changed_at for child in gateways if child.changed_at is not None), default=None)
            try:
                seen = await metrics.observe(namespace, name, pods, gateways=sum(child.ready or 0 for child in gateways))
                return replace(snapshot, metrics=replace(seen, gateways_changed_at=changed_at))
            finally:
                metrics.close()
    except ClusterError as error:
        exits.leave(str(error), exits.FAILED)
