"""The namespace that a command without one means."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtpilot.adapters.kube import access
from mtpilot.adapters.kube.access import context_namespace

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: me, user: {token: secret}}]
contexts:
- {name: other, context: {cluster: here, user: me, namespace: team-b}}
- {name: mine, context: {cluster: here, user: me%s}}
current-context: mine
"""


@pytest.mark.parametrize(("namespace", "meant"), [(", namespace: team-a", "team-a"), ("", "default")])
def test_that_of_the_current_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: str, meant: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % namespace)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert context_namespace() == meant


def test_that_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "namespace"
    path.write_text("mtpilot-system")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(access, "_POD_NAMESPACE", path)
    assert context_namespace() == "mtpilot-system"


def test_default_where_nothing_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")
    assert context_namespace() == "default"
