"""TLS and HTTP/2 in front: the certificate, its renewal without a reload, and both protocols on one port."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from mtpilot.gateway.certificate import FileCertificates
from tests.integration.gateway.stage import until
from tests.unit.gateway.pods import pod

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl to speak HTTP/2 with")


def make_certificate(folder: Path, name: str) -> None:
    key, chain = folder / "tls.key", folder / "tls.crt"
    made = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN={name}".split()
    subprocess.run([*made, "-keyout", key, "-out", chain], check=True, capture_output=True, timeout=20)


async def served(address: str) -> str:
    """The certificate of a new connection, in PEM."""
    return await asyncio.to_thread(ssl.get_server_certificate, (address, 8080))


@pytest.fixture
async def secure(new_stage, new_engine):
    stage = await new_stage(prepare=lambda folder: make_certificate(folder, "first"), agent=False, tls={"secretName": "chat-tls"})
    stage.certificates = FileCertificates(stage.haproxy.folder)
    await stage.start_agent()
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    return stage


async def curl(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sk", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 10)
    return out.decode()


@needs_openssl
@needs_curl
async def test_both_protocols_over_tls_and_nothing_without_it(secure) -> None:
    url = f"{secure.haproxy.url}/v1/chat/completions"
    assert await curl("--http2", "-d", "{}", url) == "200 2"
    assert await curl("--http1.1", "-d", "{}", url) == "200 1.1"
    assert (await curl("-d", "{}", url.replace("https", "http"))).split()[0] != "200"


@needs_curl
async def test_http2_without_tls(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address, mode="mtp"))
    await stage.until_ready(engine.address)
    assert await curl("--http2-prior-knowledge", "-d", "{}", f"{stage.haproxy.url}/v1/chat/completions") == "200 2"


@needs_curl
async def test_a_long_silent_answer_over_http2_is_not_cut(new_stage, new_engine) -> None:
    stage = await new_stage(change=lambda config: config.replace("timeout client 300s", "timeout client 1s"))
    engine = await new_engine()
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    silent = asyncio.create_task(curl("--http2-prior-knowledge", "-d", "{}", f"{stage.haproxy.url}/v1/chat/completions"))
    await asyncio.sleep(2.5)
    engine.gate.set()
    assert await silent == "200 2"


@needs_openssl
async def test_a_renewed_certificate_is_served_without_a_reload(secure) -> None:
    worker, before = secure.haproxy.worker(), await served(secure.haproxy.address)
    make_certificate(secure.haproxy.folder, "second")

    async def renewed() -> bool:
        return await served(secure.haproxy.address) != before

    await until(renewed, 4)
    assert secure.haproxy.worker() == worker


@needs_openssl
async def test_a_broken_certificate_changes_nothing(secure) -> None:
    before = await served(secure.haproxy.address)
    (secure.haproxy.folder / "tls.crt").write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
    await until(lambda: secure.agent.metrics.failures.collect()[0].samples[0].value > 0, 4)
    assert await served(secure.haproxy.address) == before
    make_certificate(secure.haproxy.folder, "third")

    async def renewed() -> bool:
        return await served(secure.haproxy.address) != before

    await until(renewed, 4)
