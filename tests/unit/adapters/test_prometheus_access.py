"""A Prometheus behind a proxy that wants to know who asks: a token, a name with a password, a certificate authority of its own."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from e2e.clusters.local.pki import Authority
from mtpilot.adapters.prometheus import PrometheusMetrics
from mtpilot.adapters.prometheus_access import PrometheusAccess
from mtpilot.model.metrics import MetricsError, MetricsView

from .test_sglang import pod

_EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}


class Proxy:
    """Answers like a Prometheus that has no series, to whoever sends the `wanted` header, and notes what was sent."""

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.seen: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        sent = request.headers.get("Authorization")
        self.seen.append(sent)
        return web.json_response(_EMPTY) if sent == self.wanted else web.Response(status=401, text="who are you?")


@asynccontextmanager
async def served(proxy: Proxy, access: PrometheusAccess, tls: ssl.SSLContext | None = None) -> AsyncIterator[PrometheusMetrics]:
    app = web.Application()
    app.router.add_get("/api/v1/query", proxy.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    metrics = PrometheusMetrics(url, scrape_interval_seconds=5, access=access)
    try:
        yield metrics
    finally:
        await asyncio.to_thread(metrics.close, wait=True)
        await runner.cleanup()


async def asked(metrics: PrometheusMetrics) -> MetricsView:
    return await metrics.observe("n", "chat", [pod("a")])


def basic(folder: Path, **content: str) -> Path:
    for name, text in content.items():
        (folder / name).write_text(text)
    return folder


async def test_a_token_is_sent_and_read_again_for_each_query(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    proxy = Proxy("Bearer first")
    async with served(proxy, PrometheusAccess(token_file=token)) as metrics:
        assert (await asked(metrics)).error is None
        token.write_text("second")
        assert (await asked(metrics)).error is MetricsError.REFUSED
        proxy.wanted = "Bearer second"
        assert (await asked(metrics)).error is None


async def test_a_name_with_a_password(tmp_path: Path) -> None:
    folder = basic(tmp_path, username="mtpilot\n", password="pass:word\n")
    proxy = Proxy("Basic " + b64encode(b"mtpilot:pass:word").decode())
    async with served(proxy, PrometheusAccess(basic_auth=folder)) as metrics:
        assert (await asked(metrics)).error is None


async def test_without_either_nothing_is_sent() -> None:
    proxy = Proxy(None)
    async with served(proxy, PrometheusAccess()) as metrics:
        assert (await asked(metrics)).error is None
    assert set(proxy.seen) == {None}


@pytest.mark.parametrize("content", [{}, {"username": "u"}, {"username": "u", "password": " \n"}], ids=["none", "no password", "empty"])
async def test_a_missing_secret_is_a_refusal_that_names_the_file(tmp_path: Path, content: dict[str, str]) -> None:
    proxy = Proxy(None)
    async with served(proxy, PrometheusAccess(basic_auth=basic(tmp_path, **content))) as metrics:
        found = await asked(metrics)
    assert found.error is MetricsError.REFUSED
    assert ("password" if content else "username") in (found.error_message or "")
    assert proxy.seen == []


async def test_a_certificate_counts_only_with_its_authority(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca")
    pair = authority.server("prometheus", dns_names=["localhost"], addresses=["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate_file, pair.key_file)
    found: list[Any] = []
    for ca_file in (authority.certificate_file, None, tmp_path / "absent"):
        async with served(Proxy(None), PrometheusAccess(ca_file=ca_file), tls) as metrics:
            found.append(await asked(metrics))
    trusted, untrusted, absent = found
    assert trusted.error is None
    assert untrusted.error is MetricsError.UNREACHABLE
    assert "certificate" in untrusted.error_message
    assert absent.error is MetricsError.REFUSED
    assert "absent" in absent.error_message


def test_two_ways_to_say_who_we_are_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        PrometheusAccess(token_file=tmp_path, basic_auth=tmp_path)
