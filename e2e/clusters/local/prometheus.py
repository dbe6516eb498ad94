"""Prometheus as the cluster's monitoring: Kubernetes pod discovery under a service account of its own.

Pods ask to be scraped by the usual annotations. The labels that the operator joins on are set here and nowhere else: namespace, pod,
pod_uid, node and mtpilot's own pod labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

JOB = "mtpilot-pods"
NAMESPACE = "monitoring"
SERVICE_ACCOUNT = "prometheus"

_META = "__meta_kubernetes_pod_"
_POD_LABELS = ("mtpilot_dev_service", "mtpilot_dev_mode", "mtpilot_dev_component")

RBAC: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "prometheus"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "prometheus"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "prometheus"},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
    },
]


def configuration(*, kubeconfig: Path, scrape_interval_seconds: float) -> dict[str, Any]:
    """Give prometheus.yml."""
    interval = f"{round(scrape_interval_seconds * 1000)}ms"
    annotation = f"{_META}annotation_prometheus_io_"
    copies = {"namespace": "__meta_kubernetes_namespace", "pod": f"{_META}name", "pod_uid": f"{_META}uid", "node": f"{_META}node_name"}
    copies |= {label: f"{_META}label_{label}" for label in _POD_LABELS}
    relabel: list[dict[str, Any]] = [
        {"source_labels": [f"{annotation}scrape"], "action": "keep", "regex": "true"},
        {"source_labels": [f"{_META}phase"], "action": "drop", "regex": "Pending|Succeeded|Failed"},
        {"source_labels": [f"{annotation}path"], "regex": "(.+)", "target_label": "__metrics_path__"},
        {
            "source_labels": [f"{_META}ip", f"{annotation}port"],
            "separator": ":",
            "regex": r"(.+:\d+)",
            "target_label": "__address__",
        },
        *({"source_labels": [source], "regex": "(.+)", "target_label": target} for target, source in copies.items()),
    ]
    job = {
        "job_name": JOB,
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(kubeconfig)}],
        "relabel_configs": relabel,
    }
    timeout = f"{round(min(scrape_interval_seconds, 10.0) * 1000)}ms"
    return {"global": {"scrape_interval": interval, "scrape_timeout": timeout, "evaluation_interval": "5s"}, "scrape_configs": [job]}


def command(binary: Path, *, state: Path, port: int, kubeconfig: Path, scrape_interval_seconds: float) -> list[str | Path]:
    """Write prometheus.yml and give the command line."""
    folder = state / "prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    document = configuration(kubeconfig=kubeconfig, scrape_interval_seconds=scrape_interval_seconds)
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=12h",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-lifecycle",
        "--scrape.discovery-reload-interval=1s",
        "--log.level=warn",
    ]
