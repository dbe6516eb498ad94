"""The chart grants what the operator asks for at start, and no more, in each of its variants."""

from __future__ import annotations

import pytest

from mtpilot.adapters.kube.review import RIGHTS, Right
from tests.chart_rendering import Manifest, only, rendered

Granted = set[tuple[str, str, str]]
HOOK = "helm.sh/hook"


def granted(role: Manifest) -> Granted:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(*, cluster: bool) -> Granted:
    def name(right: Right) -> str:
        return f"{right.resource}/{right.subresource}" if right.subresource else right.resource

    return {(right.group, name(right), right.verb) for right in RIGHTS if right.cluster is cluster}


def of_operator(manifests: list[Manifest]) -> list[Manifest]:
    return [found for found in manifests if found["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "operator"]


def test_cluster_wide() -> None:
    manifests = of_operator(rendered())
    assert granted(only(manifests, "ClusterRole")) == asked(cluster=True) | asked(cluster=False)
    assert not [found for found in manifests if found["kind"] == "Role"]
    named = {tuple(rule["resourceNames"]) for rule in only(manifests, "ClusterRole")["rules"] if "resourceNames" in rule}
    assert named == {right.names for right in RIGHTS if right.names}


def test_of_some_namespaces() -> None:
    manifests = of_operator(rendered("--set", "watchNamespaces={team-a,team-b}"))
    assert granted(only(manifests, "ClusterRole")) == asked(cluster=True)
    roles = [found for found in manifests if found["kind"] == "Role"]
    assert {role["metadata"]["namespace"] for role in roles} == {"team-a", "team-b"}
    assert all(granted(role) == asked(cluster=False) for role in roles)


@pytest.mark.parametrize(
    "values", [(), ("--set", "watchNamespaces={team-a}"), ("--set", "prometheus.install=true")], ids=["all", "one", "own"]
)
def test_every_role_is_bound_to_an_account_that_exists(values: tuple[str, ...]) -> None:
    manifests = rendered(*values)
    accounts = {(found["metadata"]["namespace"], found["metadata"]["name"]) for found in manifests if found["kind"] == "ServiceAccount"}
    roles = {
        (found["kind"], found["metadata"]["name"], found["metadata"].get("namespace"))
        for found in manifests
        if found["kind"].endswith("Role")
    }
    bound = set()
    for binding in (found for found in manifests if found["kind"].endswith("RoleBinding")):
        bound.add((binding["roleRef"]["kind"], binding["roleRef"]["name"], binding["metadata"].get("namespace")))
        assert {(subject["namespace"], subject["name"]) for subject in binding["subjects"]} <= accounts
    assert roles == bound


def test_nothing_is_a_wildcard_and_no_secret_is_listed() -> None:
    rules = [rule for found in rendered() if found["kind"].endswith("Role") for rule in found["rules"]]
    assert not [rule for rule in rules if "*" in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]]
    assert not {"escalate", "bind", "impersonate"} & {verb for rule in rules for verb in rule["verbs"]}
    assert {verb for rule in rules if "secrets" in rule["resources"] for verb in rule["verbs"]} == {"get", "create"}


@pytest.mark.parametrize(("stop", "verbs"), [("false", {"get", "list", "patch"}), ("true", {"get", "list", "patch", "delete"})])
def test_clean_up_may_delete_only_where_it_is_to(stop: str, verbs: set[str]) -> None:
    manifests = [found for found in rendered("--set", f"cleanup.stopServing={stop}") if HOOK in found["metadata"].get("annotations", {})]
    assert granted(only(manifests, "ClusterRole")) == {("mtpilot.dev", "inferenceservices", verb) for verb in verbs}
    own = only(manifests, "Role")
    assert granted(own) == {("apps", "deployments", "get"), ("apps", "deployments/scale", "patch"), ("", "pods", "list")}
    assert all(rule.get("resourceNames") == ["mtpilot"] for rule in own["rules"] if rule["apiGroups"] == ["apps"])
