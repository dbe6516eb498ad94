"""Values: what is wrong is refused, each value reaches the object that it is about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.chart import described, leaves, table
from mtpilot.cli.main import app
from tests.chart_rendering import CHART, ROOT, Manifest, helm, only, refusal, rendered, template

WRONG = {
    "unknown value": ("--set", "replicas=2"),
    "unknown nested value": ("--set", "image.name=x"),
    "two operators": ("--set", "replicaCount=2"),
    "a latest tag": ("--set", "image.tag=latest"),
    "a latest HAProxy": ("--set", "gateway.haproxyImage.tag=latest"),
    "a digest that is none": ("--set", "image.digest=sha256:12"),
    "an unknown pull policy": ("--set", "image.pullPolicy=Sometimes"),
    "a repository with a digest": ("--set", "image.repository=a@sha256:1"),
    "a name that is too long": ("--set", f"fullnameOverride={'x' * 41}"),
    "a name in capitals": ("--set", "nameOverride=MtPilot"),
    "a namespace that is no name": ("--set", "watchNamespaces={team_a}"),
    "a namespace twice": ("--set", "watchNamespaces={a,a}"),
    "namespaces as a text": ("--set", "watchNamespaces=a"),
    "a privileged port": ("--set", "operator.metricsPort=80"),
    "a port as text": ("--set-string", "operator.livenessPort=8080"),
    "an unknown log level": ("--set", "operator.logLevel=TRACE"),
    "an unknown log format": ("--set", "operator.logFormat=xml"),
    "a period of nothing": ("--set", "operator.periodSeconds=0"),
    "a label that is a number": ("--set", "commonLabels.a=1"),
    "a Prometheus without scheme": ("--set", "prometheus.url=prometheus:9090"),
    "a Prometheus with a password in its URL": ("--set", "prometheus.url=http://user:secret@prometheus:9090"),
    "a scrape interval of zero": ("--set", "prometheus.scrapeIntervalSeconds=0"),
    "a scrape interval with a unit": ("--set", "prometheus.scrapeIntervalSeconds=15s"),
    "a rate window of nothing": ("--set", "prometheus.rateWindowSeconds=0"),
    "a token in clear": ("--set", "prometheus.bearerToken.value=secret"),
    "a password in clear": ("--set", "prometheus.basicAuth.password=secret"),
    "a retention without unit": ("--set-string", "prometheus.retention=24"),
    "a Prometheus image without tag": ("--set", "prometheus.image=prom/prometheus"),
    "a runbook without scheme": ("--set", "monitoring.rules.runbookUrl=runbook"),
    "a CIDR that is an address": ("--set", "networkPolicy.apiServerCidrs={10.0.0.1}"),
    "no API server port": ("--set-json", "networkPolicy.apiServerPorts=[]"),
    "a budget with numbers": ("--set", "podDisruptionBudget.minAvailable=1"),
    "a clean-up that has no time": ("--set", "cleanup.timeoutSeconds=0"),
    "keep as a text": ("--set-string", "crds.keep=yes"),
}
CLASHES = {
    "token and password": (("prometheus.bearerToken.existingSecret=a", "prometheus.basicAuth.existingSecret=b"), "exclude each other"),
    "two authorities": (("prometheus.ca.existingSecret=a", "prometheus.ca.existingConfigMap=b"), "exclude each other"),
    "authority without TLS": (("prometheus.ca.existingSecret=a", "prometheus.url=http://p:9090"), "no certificate to check"),
    "own and another Prometheus": (("prometheus.install=true", "prometheus.url=http://p:9090"), "leave prometheus.url empty"),
    "own Prometheus with a token": (("prometheus.install=true", "prometheus.bearerToken.existingSecret=a"), "asks for no token"),
    "no account": (("serviceAccount.create=false",), "serviceAccount.name"),
    "clean-up without rights": (("rbac.create=false",), "cleanup.enabled needs rbac.create"),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_refused_by_the_schema(arguments: tuple[str, ...]) -> None:
    assert "values don't meet the specifications of the schema" in refusal(*arguments)


@pytest.mark.parametrize(("values", "message"), CLASHES.values(), ids=CLASHES)
def test_values_that_clash_are_refused_with_a_reason(values: tuple[str, ...], message: str) -> None:
    assert message in refusal("--set", ",".join(values))


def test_helm_lint_finds_nothing() -> None:
    result = helm("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout
    assert "[WARNING]" not in result.stdout


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(part: Any, known: dict[str, Any], path: str) -> None:
        if "properties" in known:
            assert set(part) == set(known["properties"]) - {"global"}, path
            assert known["additionalProperties"] is False, path
            for name, value in part.items():
                compare(value, known["properties"][name], f"{path}.{name}")

    compare(values, schema, "values")


def test_every_value_is_described_and_in_the_readme() -> None:
    text = (CHART / "values.yaml").read_text()
    paths = [path for path, _ in leaves(yaml.safe_load(text), described(text))]
    assert len(paths) > 50
    assert table(text) in (CHART / "README.md").read_text()


def test_a_value_without_description_is_noticed() -> None:
    with pytest.raises(ValueError, match=r"b\.c has no"):
        table("# -- Told.\na: 1\nb:\n  c: 2\n")


def test_a_description_may_have_lines_and_a_group_counts_whole() -> None:
    text = "# -- One\n# two.\na:\n  # inner\n  b: 1\n# a remark\n\nc:\n  # -- Three.\n  d: 2\n"
    assert described(text) == {"a": "One two.", "c.d": "Three."}
    assert list(leaves(yaml.safe_load(text), described(text))) == [("a", {"b": 1}), ("c.d", 2)]


def test_versions_are_one() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert chart["version"] == chart["appVersion"] == version[1]


def test_crds_are_those_of_the_repository() -> None:
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        assert (CHART / "files/crds" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("keep", [True, False])
def test_crds_are_templates_that_an_uninstall_keeps_if_told_so(keep: bool) -> None:
    found = [manifest for manifest in rendered("--set", f"crds.keep={str(keep).lower()}") if manifest["kind"] == "CustomResourceDefinition"]
    originals = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    for manifest, original in zip(sorted(found, key=lambda crd: crd["metadata"]["name"]), originals, strict=True):
        annotations = manifest["metadata"].pop("annotations", None)
        assert annotations == ({"helm.sh/resource-policy": "keep"} if keep else None)
        assert manifest == original


def operator_of(*arguments: str) -> Manifest:
    spec: Manifest = only(rendered(*arguments), "Deployment", "operator")["spec"]["template"]["spec"]
    return spec


def test_every_argument_is_an_option_of_the_command() -> None:
    commands = {command.name or command.callback.__name__: command for command in app.registered_commands if command.callback}
    for values in (
        (),
        ("--values", str(CHART / "ci/guarded-prometheus-values.yaml")),
        ("--values", str(CHART / "ci/basic-auth-values.yaml")),
    ):
        manifests = rendered(*values)
        pods = [only(manifests, "Deployment", "operator"), only(manifests, "Job")]
        for pod in pods:
            command, *options = pod["spec"]["template"]["spec"]["containers"][0]["args"]
            callback = commands[command].callback
            assert callback is not None
            known = {f"--{name.replace('_', '-')}" for name in callback.__annotations__}
            assert {option.partition("=")[0] for option in options} <= known


def test_a_digest_wins_over_the_tag_and_reaches_the_gateways() -> None:
    digest = "sha256:" + "0" * 64
    container = operator_of("--set", f"image.tag=1.2.3,image.digest={digest}")["containers"][0]
    assert container["image"] == f"mtpilot@{digest}"
    assert f"--agent-image=mtpilot@{digest}" in container["args"]


def test_long_names_are_cut() -> None:
    manifests = rendered(name="r" * 53)
    assert all(len(found["metadata"]["name"]) <= 63 for found in manifests if found["kind"] in {"Service", "Deployment", "Job", "Pod"})


@pytest.mark.parametrize("values", sorted((CHART / "ci").glob("*.yaml")), ids=lambda path: path.stem)
def test_pods_are_restricted(values: Path) -> None:
    for manifest in rendered("--values", str(values)):
        spec = manifest.get("spec", {}).get("template", {}).get("spec") or (manifest["spec"] if manifest["kind"] == "Pod" else None)
        if spec is None:
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"]
            assert container["resources"]["limits"]["memory"]
            assert not container["image"].endswith(":latest")


def test_secrets_are_mounted_where_the_options_say() -> None:
    for name in ("guarded-prometheus", "basic-auth"):
        spec = operator_of("--values", str(CHART / f"ci/{name}-values.yaml"))
        container = spec["containers"][0]
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        files = [argument.partition("=")[2] for argument in container["args"] if "=/etc/mtpilot/" in argument]
        assert len(files) == 2
        assert all(file in mounts or file.rpartition("/")[0] in mounts for file in files)
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://p", 80), ("https://p", 443), ("https://p:8443/x", 8443), ("http://p.ns:9090", 9090)],
    ids=lambda value: str(value),
)
def test_the_policy_lets_the_operator_reach_prometheus(url: str, port: int) -> None:
    policy = only(rendered("--set", f"networkPolicy.enabled=true,prometheus.url={url}"), "NetworkPolicy")
    assert port in {entry["port"] for rule in policy["spec"]["egress"] for entry in rule["ports"]}


def test_the_notes_name_the_next_command() -> None:
    result = helm("install", "mtpilot", str(CHART), "--dry-run=client", "--namespace", "mtpilot-system")
    assert result.returncode == 0, result.stderr
    assert "helm test mtpilot -n mtpilot-system" in result.stdout


def test_nothing_is_left_to_the_namespace_of_whoever_applies() -> None:
    text = template("--set", "namespaceOverride=elsewhere")
    cluster = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    for manifest in yaml.safe_load_all(text):
        if manifest and manifest["kind"] not in cluster:
            assert manifest["metadata"]["namespace"] == "elsewhere"
