"""The operator's rights, by the API server's audit log of everything before: none is missing, and none is for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from e2e.kind.config import ROOT
from tests.e2e.conftest import SYSTEM_NAMESPACE, KindScene, Tally
from tests.helm_release import HelmRelease
from tests.integration.scenarios.looks import audit_events
from tests.integration.scenarios.support import under_load
from tests.integration.support import eventually

OPERATOR = f"system:serviceaccount:{SYSTEM_NAMESPACE}:mtpilot"
Right = tuple[str, str, str]
# A right that no request of its own shows.
WAIVED: dict[Right, str] = {
    ("mtpilot.dev", "inferenceservices/finalizers", "update"): "asked by the admission plugin OwnerReferencesPermissionEnforcement alone",
    ("apps", "statefulsets", "list"): "LeaderWorkerSet's, which is not installed here",
    ("apps", "controllerrevisions", "list"): "LeaderWorkerSet's, which is not installed here",
}
_USERS = {"test_life_of_a_release", "test_flips", "test_nodes"}  # what must have run before a right counts as unused


def granted(rules: Iterable[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }


def used(events: Iterable[dict[str, Any]], account: str) -> tuple[set[Right], list[str]]:
    """What an account has used, and its requests that lacked a right; an apply that made its object needs `create` too."""
    rights: set[Right] = set()
    refused = []
    for event in events:
        target = event.get("objectRef")
        if event["user"].get("username") != account or not target:
            continue
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        group, code = target.get("apiGroup", ""), (event.get("responseStatus") or {}).get("code")
        if code == 403:
            if "being terminated" in event["responseStatus"].get("message", ""):
                continue  # the namespace goes: nobody may create in it, whatever his rights
            refused.append(f"{event['verb']} {event['requestURI']}")
            continue
        rights.add((group, resource, event["verb"]))
        if code == 201:
            rights.add((group, resource, "create"))
    return rights, refused


def profile() -> dict[str, Any]:
    """A profile of public figures, for the tests' own hardware class."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "e2e/data/profiles/qwen3.5-122b-rtx-pro-6000-x4.yaml").read_text())
    found["spec"]["hardwareClass"] = "rtx-x4"
    return found


@pytest.mark.timeout(600)
async def test_every_right_is_used_and_none_is_missing(
    installed: HelmRelease, scene: KindScene, tally: Tally, log_start: int, request: pytest.FixtureRequest
) -> None:
    measured = profile()
    await scene.apply(measured, scene.service(replicas=3))
    await scene.until_ready(replicas=3, seconds=120)
    await scene.expose()
    async with under_load(scene, clients=3, urls=scene.urls) as busy:
        await scene.patch("chat", {"replicas": 2, "policy": {"pinned": {"mtp": 2, "batch": 0}}})
        await scene.until_gone("deployments", "chat-r2", seconds=120)
        await scene.until_ready(seconds=60)
    tally.add(busy.load.result)

    async def profile_read() -> bool:
        return "status" in (await scene.get("throughputprofiles", measured["metadata"]["name"]) or {})

    await eventually(profile_read, seconds=90)
    await scene.delete("chat")
    await scene.until_gone("inferenceservices", "chat", seconds=120)

    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{SYSTEM_NAMESPACE}-mtpilot"
    rights = granted((await scene.cluster.client.get(path))["rules"])
    found, refused = used(audit_events(scene.cluster.audit_log_path, since=log_start), OPERATOR)
    assert refused == []
    assert {right for right in found if right[0] != "authorization.k8s.io"} <= rights
    if {item.path.stem for item in request.session.items} >= _USERS:
        assert {right for right in rights - found - set(WAIVED) if right[0] != "leaderworkerset.x-k8s.io"} == set()
