"""What a process is given: variables, volumes, an account at the API, a scrape by Prometheus."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.clusters.kube import ApiError, KubeClient, Kubeconfig
from e2e.clusters.local import LocalCluster
from tests.integration.cluster.pods import PORTS, SERVER, output, read, until_ready
from tests.integration.support import eventually, pod


async def test_environment_and_volumes_reach_the_process(local_cluster: LocalCluster, namespace: str) -> None:
    script = """
import json, os, pathlib
names = ("POD_NAME", "POD_IP", "NODE", "FROM_MAP", "FROM_SECRET", "JOINED", "P_color", "LIMIT", "ADDRESS")
print(json.dumps({name: os.environ.get(name) for name in names} | {"file": pathlib.Path(os.environ["CONFIG"]).read_text()}), flush=True)
pathlib.Path(os.environ["SCRATCH"], "written").touch()
while True: __import__("time").sleep(60)
"""
    variables: list[dict[str, Any]] = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "color"}}},
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}},
        {"name": "JOINED", "value": "$(POD_NAME)-$$(x)"},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "ADDRESS", "value": "http://0.0.0.0:80"},
        {"name": "CONFIG", "value": "/etc/app/color"},
        {"name": "SCRATCH", "value": "/scratch"},
    ]
    manifest = pod(
        "env",
        script,
        env=variables,
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "map"}}],
        resources={"limits": {"cpu": "1500m"}},
        volumeMounts=[{"name": "map", "mountPath": "/etc/app"}, {"name": "claim", "mountPath": "/scratch"}],
        pod_spec={
            "volumes": [
                {"name": "map", "configMap": {"name": "map"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "models"}},
            ]
        },
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"color": "blue"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"key": "hush"}}
    await local_cluster.apply([claim, manifest], namespace=namespace)
    await asyncio.sleep(1.0)
    assert (await read(local_cluster, namespace, "env"))["status"]["phase"] == "Pending"
    await local_cluster.apply([config, secret], namespace=namespace)
    found = await until_ready(local_cluster, namespace, "env")

    async def printed() -> str:
        return output(local_cluster, namespace, "env")

    address = found["status"]["podIP"]
    assert json.loads(await eventually(printed)) == {
        "POD_NAME": "env",
        "POD_IP": address,
        "NODE": found["spec"]["nodeName"],
        "FROM_MAP": "blue",
        "FROM_SECRET": "hush",
        "JOINED": "env-$(x)",
        "P_color": "blue",
        "LIMIT": "2",
        "ADDRESS": f"http://{address}:80",
        "file": "blue",
    }
    written = Path(local_cluster.state_dir, "claims", namespace, "models", "written")
    await eventually(lambda: asyncio.to_thread(written.exists))


async def test_pod_speaks_to_the_api_as_its_service_account_only(local_cluster: LocalCluster, namespace: str) -> None:
    script = """
import json, os, ssl, urllib.error, urllib.request, yaml
config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
def call(path, body=None):
    request = urllib.request.Request(cluster["server"] + path, data=body, headers={
        "Authorization": "Bearer " + open(user["tokenFile"]).read(), "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=cluster["certificate-authority"])) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code
review = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
name = call("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]["username"]
print(json.dumps([name, call("/api/v1/nodes")]), flush=True)
__import__("time").sleep(600)
"""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent"}}
    await local_cluster.apply([account, pod("agent", script, pod_spec={"serviceAccountName": "agent"})], namespace=namespace)

    async def printed() -> str:
        return output(local_cluster, namespace, "agent")

    name = f"system:serviceaccount:{namespace}:agent"
    assert json.loads(await eventually(printed)) == [name, 403]
    kubeconfig = await local_cluster.service_account_kubeconfig(namespace, "agent")
    async with KubeClient(Kubeconfig.load(kubeconfig)) as client:
        with pytest.raises(ApiError) as refused:
            await client.get("/api/v1/nodes")
    assert refused.value.status == 403

    def audited() -> list[dict[str, Any]]:
        events = map(json.loads, local_cluster.audit_log_path.read_text().splitlines())
        return [event for event in events if event["user"]["username"] == name and event["objectRef"]["resource"] == "nodes"]

    found = await eventually(lambda: asyncio.to_thread(audited))
    assert {event["verb"] for event in found} == {"list"}


async def test_prometheus_scrapes_annotated_pods_with_their_identity(local_cluster: LocalCluster, namespace: str) -> None:
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000", "prometheus.io/path": "/anything"}
    manifest = pod("scraped", SERVER, ports=PORTS, annotations=annotations)
    manifest["metadata"]["labels"] |= {"mtpilot.dev/service": "chat", "mtpilot.dev/mode": "mtp", "mtpilot.dev/component": "engine"}
    await local_cluster.apply([manifest], namespace=namespace)
    found = await until_ready(local_cluster, namespace, "scraped")
    url = f"{local_cluster.prometheus_url}/api/v1/query"

    async def series() -> list[dict[str, Any]]:
        query = {"query": f'mtpilot_test{{namespace="{namespace}"}}'}
        async with local_cluster.client.session.get(url, params=query) as answer:
            results: list[dict[str, Any]] = (await answer.json())["data"]["result"]
            return results

    (only,) = await eventually(series)
    expected = {
        "job": "mtpilot-pods",
        "namespace": namespace,
        "pod": "scraped",
        "pod_uid": found["metadata"]["uid"],
        "node": found["spec"]["nodeName"],
        "mtpilot_dev_service": "chat",
        "mtpilot_dev_mode": "mtp",
        "mtpilot_dev_component": "engine",
    }
    assert expected.items() <= only["metric"].items()
