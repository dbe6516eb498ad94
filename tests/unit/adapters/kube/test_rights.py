"""The rights that are asked for at start are those that the manifest grants, and the other way round."""

from pathlib import Path

import yaml

from mtpilot.adapters.kube.children import CHILD_KINDS
from mtpilot.adapters.kube.paths import collection_path
from mtpilot.adapters.kube.review import RIGHTS

MANIFEST = Path(__file__).parents[4] / "e2e/manifests/rbac-operator.yaml"


def granted() -> set[tuple[str, str, str]]:
    role = next(found for found in yaml.safe_load_all(MANIFEST.read_text()) if found["kind"] == "ClusterRole")
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_asked_and_granted_are_equal() -> None:
    asked = {
        (right.group, f"{right.resource}/{right.subresource}" if right.subresource else right.resource, right.verb) for right in RIGHTS
    }
    assert asked == granted()


def test_every_child_kind_can_be_listed_and_made() -> None:
    for api_version, kind in CHILD_KINDS:
        group = api_version.rpartition("/")[0]
        resource = collection_path(api_version, kind, None).rpartition("/")[2]
        assert {(group, resource, verb) for verb in ("get", "list", "create", "patch")} <= granted()


def test_secrets_cannot_be_listed() -> None:
    assert {verb for _, resource, verb in granted() if resource == "secrets"} == {"get", "create"}


def test_definitions_are_read_by_name_only() -> None:
    role = next(found for found in yaml.safe_load_all(MANIFEST.read_text()) if found["kind"] == "ClusterRole")
    named = {(rule["resources"][0], tuple(rule["resourceNames"])) for rule in role["rules"] if "resourceNames" in rule}
    assert named == {(right.resource, right.names) for right in RIGHTS if right.names}


def test_only_slots_and_what_measures_them_can_be_deleted() -> None:
    """All other children go with their service, by Kubernetes' own collector."""
    assert {resource for _, resource, verb in granted() if verb == "delete"} == {"deployments", "leaderworkersets", "jobs"}
