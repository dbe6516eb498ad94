"""Alerts and dashboard speak only of metrics that exist, and lead to a section of the runbook."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.check_links import anchors
from e2e import toolchain
from mtpilot.api.status import SlotPhase
from mtpilot.gateway.telemetry import AgentMetrics
from mtpilot.model.reasons import Reason
from mtpilot.telemetry.metrics import OperatorMetrics
from sglang_sim.metrics import _UNRECORDED
from tests.chart_rendering import CHART, ROOT, only, rendered

TESTS = Path(__file__).with_name("alerts_test.yaml")
# Of HAProxy's Prometheus exporter; tests/integration/gateway scrapes the real one.
HAPROXY = {"haproxy_backend_current_queue", "haproxy_backend_http_responses_total", "haproxy_backend_sessions_total"}
_NAME = re.compile(r"\b(?:mtpilot|haproxy|sglang)[_:][a-z0-9_]+")
_LABEL = {"mtpilot_dev_service"}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "files/dashboard.json").read_text())
    return found


def expressions() -> list[str]:
    panels = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    variables = [entry["query"]["query"] for entry in dashboard()["templating"]["list"] if entry["type"] == "query"]
    return [*panels, *variables, *(rule["expr"] for rule in alerts())]


def samples(registry: Any) -> set[str]:
    """Every sample name of a registry, of families without a series as well."""
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""], "info": ["_info"]}
    return {f"{family.name}{suffix}" for family in registry.collect() for suffix in suffixes[family.type]}


def known() -> set[str]:
    recorded = json.loads((ROOT / "images/sglang-sim/src/sglang_sim/data/metrics.json").read_text())
    engine = {family["name"] for family in [*recorded["families"], *_UNRECORDED]}
    return samples(OperatorMetrics().registry) | samples(AgentMetrics().registry) | engine | HAPROXY


def test_only_metrics_that_exist_are_asked_for() -> None:
    asked = {name for expression in expressions() for name in _NAME.findall(expression)} - _LABEL
    assert len(asked) > 15
    assert asked - known() == set()


def test_only_reasons_and_phases_that_exist_are_asked_for() -> None:
    reasons = {word for text in expressions() for match in re.findall(r'reason=~?"([^"]+)"', text) for word in match.split("|")}
    phases = {word for text in expressions() for match in re.findall(r'phase!?=?~?"([^"]+)"', text) for word in match.split("|")}
    assert reasons <= {reason.value for reason in Reason}
    assert phases <= {phase.value for phase in SlotPhase}
    assert reasons
    assert phases


def test_every_alert_has_its_section_in_the_runbook_and_its_test() -> None:
    sections = anchors(ROOT / "docs/runbook.md")
    tested = {case["alertname"] for group in yaml.safe_load(TESTS.read_text())["tests"] for case in group["alert_rule_test"]}
    for rule in alerts():
        page, _, section = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/runbook.md"
        assert section == rule["alert"].lower()
        assert section in sections
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert tested == {rule["alert"] for rule in alerts()}


def test_the_rule_object_links_to_the_page_that_was_told() -> None:
    manifests = rendered("--set", "monitoring.rules.enabled=true,monitoring.rules.runbookUrl=https://wiki.example/mtpilot")
    rules = only(manifests, "PrometheusRule")["spec"]["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [rule["alert"] for rule in alerts()]
    assert all(rule["annotations"]["runbook_url"].startswith("https://wiki.example/mtpilot#") for rule in rules)


def test_the_dashboard_is_whole() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["description"].endswith(".") for panel in panels)
    found = only(rendered("--set", "monitoring.dashboard.enabled=true"), "ConfigMap")
    assert json.loads(found["data"]["mtpilot.json"]) == dashboard()


def test_the_own_prometheus_has_the_alerts_and_the_labels_that_the_operator_joins_on() -> None:
    found = only(rendered("--set", "prometheus.install=true,watchNamespaces={team-a}"), "ConfigMap", "prometheus")
    assert [rule["alert"] for rule in yaml.safe_load(found["data"]["alerts.yaml"])["groups"][0]["rules"]] == [
        rule["alert"] for rule in alerts()
    ]
    config = yaml.safe_load(found["data"]["prometheus.yml"])
    for job in config["scrape_configs"][:2]:
        assert {"namespace", "pod", "mtpilot_dev_service"} <= {rule.get("target_label") for rule in job["relabel_configs"]}
        assert job["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["team-a"]


def test_alerts_fire_when_they_should() -> None:
    promtool = toolchain.locate(toolchain.TOOLS["promtool"])
    if promtool is None:
        pytest.skip("no promtool: python -m e2e.toolchain ensure promtool")
    result = subprocess.run([promtool, "test", "rules", str(TESTS)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
