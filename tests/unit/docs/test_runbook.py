"""The runbook has every reason and no other, and its patches are accepted whatever the mode was."""

import json
import re
from pathlib import Path

from mtpilot.model.reasons import Reason

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbook.md"


def reasons_in_runbook() -> set[str]:
    rows = [line.split("|")[1] for line in RUNBOOK.read_text("utf-8").splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([A-Z][A-Za-z0-9]+)`", cell)}


def test_every_reason_has_a_row_and_every_row_a_reason():
    assert reasons_in_runbook() == {reason.value for reason in Reason}


def test_a_patch_to_another_mode_takes_pinned_away():
    texts = [path.read_text("utf-8") for path in (RUNBOOK, RUNBOOK.parents[1] / "README.md")]
    patches = [json.loads(found) for text in texts for found in re.findall(r"-p\s+'(\{.*?\})'", text)]
    policies = [patch["spec"]["policy"] for patch in patches if "policy" in patch.get("spec", {})]
    assert {policy["mode"] for policy in policies} == {"Auto", "RecommendOnly", "Pinned"}
    assert all("pinned" in policy and (policy["pinned"] is None) == (policy["mode"] != "Pinned") for policy in policies)
