"""A gateway with API keys and TLS as Kubernetes runs it: Secrets mounted into its containers, probes over TLS."""

import base64
import shutil
import ssl
from pathlib import Path

import aiohttp
import pytest

from e2e.clusters.local import LocalCluster
from mtpilot.model.snapshot import Manifest
from mtpilot.render.gateway import render_gateway
from tests.integration.gateway.scene import Scene, engine_pod, until_serving, url
from tests.integration.gateway.test_tls import make_certificate
from tests.integration.support import eventually
from tests.unit.render.samples import service as sample_service
from tests.unit.render.samples import small_spec

KEY = "sk-of-team-a"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")


def secret(namespace: str, name: str, data: dict[str, bytes], kind: str = "Opaque") -> Manifest:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "type": kind, "data": encoded}


async def ask(gateway: Manifest, scheme: str, trusted: Path, key: str | None) -> int:
    """Status of a request, the gateway's certificate verified by name."""
    context = ssl.create_default_context(cafile=trusted)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    asked = f"{url(gateway, scheme)}/v1/x"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(asked, data=b"1", ssl=context, server_hostname="chat") as answer,
    ):
        return answer.status


async def test_only_known_keys_are_served_and_only_over_tls(local_cluster: LocalCluster, namespace: str, tmp_path: Path) -> None:
    make_certificate(tmp_path, "chat")
    certificate = {name: (tmp_path / name).read_bytes() for name in ("tls.crt", "tls.key")}
    gateway = {"replicas": 1, "tls": {"secretName": "chat-tls"}, "apiKeys": {"secretName": "chat-clients"}}
    scene = Scene(local_cluster, sample_service(small_spec(gateway=gateway), namespace=namespace))
    await scene.apply(
        secret(namespace, "chat-tls", certificate, "kubernetes.io/tls"),
        secret(namespace, "chat-clients", {"team-a": KEY.encode()}),
        *render_gateway(scene.service),
        engine_pod(0, namespace),
    )

    async def ready() -> bool:
        return len(await scene.gateways()) == 1

    await eventually(ready, seconds=40)
    pods = await scene.gateways()
    await until_serving(scene, pods, {"r0"})
    trusted = tmp_path / "tls.crt"
    assert await ask(pods[0], "https", trusted, KEY) == 200
    assert await ask(pods[0], "https", trusted, "sk-of-nobody") == 401
    assert await ask(pods[0], "https", trusted, None) == 401
    with pytest.raises(aiohttp.ClientError):
        await ask(pods[0], "http", trusted, KEY)
