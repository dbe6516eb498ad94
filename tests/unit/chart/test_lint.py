"""What checkov finds is waived by a line with a reason, or fails."""

from __future__ import annotations

import json

from e2e.chart_lint import Finding, Waiver, findings, oldest, problems, waivers

POD = "Pod.system.mtpilot-cleanup.app.kubernetes.io/name-mtpilot.app.kubernetes.io/instance-mtpilot"
CPU = Finding(check="CKV_K8S_11", subject="Deployment/mtpilot", title="CPU limits should be set")


def test_a_finding_is_told_with_its_object_whatever_made_it() -> None:
    failed = [
        {"check_id": "CKV_K8S_11", "resource": "Deployment.system.mtpilot", "check_name": CPU.title},
        {"check_id": "CKV2_K8S_6", "resource": POD, "check_name": "policy"},
    ]
    found = findings(json.dumps({"results": {"failed_checks": failed}}))
    assert found == {CPU, Finding(check="CKV2_K8S_6", subject="Pod/mtpilot-cleanup", title="policy")}


def test_only_a_waiver_for_that_object_covers_a_finding() -> None:
    waiver = Waiver(check="CKV_K8S_11", objects=("Job/*", "Deployment/mtpilot"), reason="r")
    assert problems([CPU], [waiver]) == []
    other = Finding(check="CKV_K8S_11", subject="Deployment/other", title="t")
    assert problems([CPU, other], [waiver]) == ["Deployment/other: CKV_K8S_11 t"]


def test_a_waiver_that_meets_nothing_has_to_go() -> None:
    waiver = Waiver(check="CKV_K8S_9", objects=("*/*",), reason="r")
    assert problems([], [waiver]) == ["waivers.yaml: CKV_K8S_9 meets no finding any more: delete it"]


def test_every_waiver_has_a_reason_in_words_and_the_chart_names_its_oldest_kubernetes() -> None:
    assert all(len(waiver.reason.split()) > 5 for waiver in waivers())
    assert oldest() == "1.30"
