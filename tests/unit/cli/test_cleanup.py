"""`mtpilot cleanup`: what must be said, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from mtpilot.adapters.kube.leaving import Found, Leaving, Outcome
from mtpilot.cli import exits
from mtpilot.cli.main import app

CHAT = Found(name="chat", namespace="team-a", uid="u", held=True, deleting=False, moving=("chat-r1 (Draining)",))
CODE = Found(name="code", namespace="team-a", uid="v", held=True, deleting=True)
runner = CliRunner()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the command asks of the cluster, which answers with one service of each kind."""
    calls: list[dict[str, Any]] = []

    class Client:
        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    async def connect() -> Client:
        return Client()

    async def run(self: Leaving, **options: Any) -> Outcome:
        calls.append({"namespaces": self.namespaces, "operator": str(self.operator), **options})
        return Outcome(released=(CHAT,), forced=(CODE,))

    async def find(_: Leaving) -> tuple[Found, ...]:
        return (CHAT, CODE)

    monkeypatch.setattr("mtpilot.adapters.kube.client.KubeClient.connect", connect)
    monkeypatch.setattr(Leaving, "run", run)
    monkeypatch.setattr(Leaving, "find", find)
    return calls


@pytest.mark.parametrize("arguments", [[], ["-A", "-n", "a"], ["-A", "--operator", "mtpilot"], ["-A", "--operator", "a/b/c"]])
def test_it_must_be_told_where(arguments: list[str]) -> None:
    assert runner.invoke(app, ["cleanup", *arguments]).exit_code == exits.USAGE


def test_it_tells_what_serves_on_and_how_to_end_it(asked: list[dict[str, Any]]) -> None:
    result = runner.invoke(app, ["cleanup", "-n", "team-a", "--operator", "mtpilot-system/mtpilot", "--timeout", "9"])
    assert result.exit_code == 0
    assert "team-a/chat serves on without an operator; not serving, and left as they are: chat-r1 (Draining)" in result.output
    assert "team-a/code is deleted without waiting for its drain" in result.output
    assert "kubectl delete" in result.output
    (call,) = asked
    assert (call["namespaces"], call["operator"]) == (("team-a",), "Deployment mtpilot-system/mtpilot")
    assert (call["stop_serving"], call["timeout_seconds"]) == (False, 9.0)


def test_json(asked: list[dict[str, Any]]) -> None:
    result = runner.invoke(app, ["cleanup", "-A", "--stop-serving", "--json"])
    assert json.loads(result.stdout) == {"released": ["team-a/chat"], "ended": [], "forced": ["team-a/code"]}
    assert asked[0]["stop_serving"] is True


def test_a_dry_run_writes_nothing(asked: list[dict[str, Any]]) -> None:
    result = runner.invoke(app, ["cleanup", "-A", "--dry-run"])
    assert "team-a/chat: has the finalizer; not serving" in result.output
    assert "team-a/code: being deleted, has the finalizer" in result.output
    assert asked == []
