"""The command line without a cluster: help, usage, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtpilot.cli import exits
from mtpilot.cli.main import app

COMMANDS = (
    "run",
    "plan",
    "explain",
    "snapshot",
    "crds",
    "capacity",
    "profile",
    "evidence",
    "simulate",
    "cleanup",
    "gateway-agent",
    "version",
)
runner = CliRunner()


def test_help_names_every_command_and_the_exit_statuses() -> None:
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert all(command in result.output for command in COMMANDS)
    assert "3 no such object" in " ".join(result.output.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_version_for_people_and_for_scripts() -> None:
    plain, told = runner.invoke(app, ["version"]), runner.invoke(app, ["version", "--json"])
    assert json.loads(told.output) == {"version": plain.output.strip()}


def test_help_loads_no_client() -> None:
    """The libraries that take seconds to import must not be paid for by every command."""
    heavy = ("kopf", "kubernetes", "aiohttp", "prometheus_api_client", "requests", "scipy", "matplotlib")
    script = f"import sys; from mtpilot.cli import main; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [[], ["-A", "-n", "team-a"]])
def test_run_must_be_told_which_namespaces(arguments: list[str]) -> None:
    result = runner.invoke(app, ["run", *arguments])
    assert result.exit_code == exits.USAGE
    assert "which namespaces" in result.output


def test_run_refuses_unknown_formats() -> None:
    result = runner.invoke(app, ["run", "-A", "--log-format", "xml"])
    assert result.exit_code == exits.USAGE
    assert "--log-format is json or text" in result.output


@pytest.mark.parametrize("url", ["localhost:9090", "prometheus", "http://", "ftp://prometheus:9090"])
@pytest.mark.parametrize("command", [["run", "-A"], ["snapshot", "chat", "-o", "-"]])
def test_a_prometheus_that_no_query_could_reach_is_refused_at_start(command: list[str], url: str) -> None:
    result = runner.invoke(app, [*command, "--prometheus-url", url])
    assert result.exit_code == exits.USAGE
    assert "must begin with http:// or https://" in result.output


def test_without_access_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")
    result = runner.invoke(app, ["explain", "chat"])
    assert result.exit_code == exits.FAILED
    assert "no access to a cluster" in result.output


@pytest.mark.parametrize(("arguments", "read"), [([], "team-b"), (["-n", "team-c"], "team-c")])
def test_a_service_is_looked_for_in_the_namespace_that_kubectl_would_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], read: str
) -> None:
    cluster, user = "{name: c, cluster: {server: 'https://127.0.0.1:1'}}", "{name: u, user: {token: t}}"
    context = "{name: here, context: {cluster: c, user: u, namespace: team-b}}"
    (tmp_path / "kubeconfig").write_text(f"{{clusters: [{cluster}], users: [{user}], contexts: [{context}], current-context: here}}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    asked = []

    async def read_service(name: str, namespace: str) -> None:
        asked.append((name, namespace))
        exits.leave("not there", exits.NOT_FOUND)

    monkeypatch.setattr("mtpilot.cli.explain.read_service", read_service)
    assert runner.invoke(app, ["explain", "chat", *arguments]).exit_code == exits.NOT_FOUND
    assert asked == [("chat", read)]


def test_run_refuses_two_ways_to_authenticate(tmp_path: Path) -> None:
    arguments = ["run", "-A", "--prometheus-token-file", str(tmp_path), "--prometheus-basic-auth", str(tmp_path)]
    result = runner.invoke(app, arguments)
    assert result.exit_code == exits.USAGE
    assert "exclude each other" in result.output
