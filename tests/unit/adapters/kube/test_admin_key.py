"""The generated admin key: it stands on a command line."""

from __future__ import annotations

import secrets
from base64 import b64decode
from typing import Any, cast

import pytest

from mtpilot.adapters.kube.client import KubeClient
from mtpilot.adapters.kube.execute import Executor
from mtpilot.adapters.kube.paths import Ref
from mtpilot.model.snapshot import Manifest
from mtpilot.render.secret import render_admin_secret
from tests.world import World


class Created:
    """Takes what is created; nothing is there before."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []

    async def get(self, ref: Ref, **_: Any) -> None:
        return None

    async def create(self, manifest: Manifest, *, field_manager: str) -> Manifest:
        self.manifests.append(manifest)
        return manifest


async def test_key_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_bytes", lambda count=None: b"\xfb" * count)  # in base64 for URLs this begins with "-"
    client = Created()
    service = World().snapshot().service
    action = render_admin_secret(service)
    await Executor(cast("KubeClient", client)).execute(service, action)
    ((name, value),) = client.manifests[0]["data"].items()
    assert name == action.key
    assert b64decode(value).decode().isalnum()
