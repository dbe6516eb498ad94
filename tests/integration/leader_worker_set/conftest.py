"""The shared cluster with LeaderWorkerSet 0.7: its CRD, its controller from the Go module, its webhooks on 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import toolchain
from e2e.clusters.kube import ApiError
from e2e.clusters.local import LocalCluster
from e2e.clusters.local.component import Component
from e2e.clusters.local.pki import Authority
from e2e.clusters.local.ports import free_ports
from tests.integration.controller.conftest import operator, operators, prepared_cluster, scene

__all__ = ["operator", "operators", "prepared_cluster", "scene"]

Manifest = dict[str, Any]
_CRD = Path(__file__).parent / "crd.json"
_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/leaderworkersets.leaderworkerset.x-k8s.io"
_HOOKS = "/apis/admissionregistration.k8s.io/v1"
_SETS = {"apiGroups": ["leaderworkerset.x-k8s.io"], "apiVersions": ["v1"], "resources": ["leaderworkersets"]}
_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
_OURS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}  # no other test's pods wait for it


def _webhooks(url: str, authority: Authority) -> list[Manifest]:
    """What the module's `config/webhook` registers, by URL in place of a Service."""
    bundle = b64encode(authority.certificate_file.read_bytes()).decode()

    def hook(verb: str, what: str, rule: Manifest, operations: list[str]) -> Manifest:
        return {
            "name": f"{verb}.{what.strip('-')}.lws.test",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"{url}/{verb}-{what}", "caBundle": bundle},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{**rule, "operations": operations}],
            **({"objectSelector": _OURS} if rule is _PODS else {}),
        }

    def configuration(kind: str, *hooks: Manifest) -> Manifest:
        return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "lws"}, "webhooks": list(hooks)}

    sets, both = "leaderworkerset-x-k8s-io-v1-leaderworkerset", ["CREATE", "UPDATE"]
    return [
        configuration("MutatingWebhookConfiguration", hook("mutate", sets, _SETS, both), hook("mutate", "-v1-pod", _PODS, ["CREATE"])),
        configuration("ValidatingWebhookConfiguration", hook("validate", sets, _SETS, both)),
    ]


def _controller(cluster: LocalCluster, binary: Path, folder: Path, authority: Authority, port: int) -> Component:
    pair = authority.server("lws", dns_names=["localhost"], addresses=["127.0.0.1"])
    shutil.copy(pair.certificate_file, folder / "tls.crt")
    shutil.copy(pair.key_file, folder / "tls.key")
    config = folder / "config.yaml"
    settings = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder)},
    }
    config.write_text(yaml.safe_dump(settings))

    async def ready() -> bool:
        with contextlib.suppress(OSError, ApiError):
            # A dry run goes through both webhooks.
            await cluster.client.create("/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets?dryRun=All", _smallest())
            return True
        return False

    command = [binary, "--config", config, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"]
    environment = {**os.environ, "KUBECONFIG": str(cluster.admin_kubeconfig)}
    return Component("lws-controller", command, state=folder, ready=ready, environment=environment)


def _smallest() -> Manifest:
    pod = {"spec": {"containers": [{"name": "engine", "image": "x"}]}}
    spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pod}}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "probe"}, "spec": spec}


@pytest.fixture(scope="module")
async def leader_worker_set(prepared_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCluster]:
    """The cluster with LeaderWorkerSet; CRD, webhooks and controller are gone afterwards, as in the clusters of most users."""
    binary = toolchain.ensure(["lws-controller"])["lws-controller"]
    folder = tmp_path_factory.mktemp("lws")
    authority = Authority.create(folder / "pki")
    (port,) = free_ports(1)
    await prepared_cluster.apply([json.loads(_CRD.read_text())])
    controller = _controller(prepared_cluster, binary, folder, authority, port)
    await prepared_cluster.apply(_webhooks(f"https://127.0.0.1:{port}", authority))
    try:
        await controller.start()
        yield prepared_cluster
    finally:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await prepared_cluster.client.delete(f"{_HOOKS}/{kind}/lws")
        await prepared_cluster.client.delete(_CRD_PATH)
        await controller.stop()
